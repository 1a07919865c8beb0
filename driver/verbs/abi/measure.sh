#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes layout.c from the Rust declarations, compiles it with the headers of each release, and writes what
# it prints to verbs-RELEASE.txt and cma-RELEASE.txt.
# usage: measure.sh RELEASE=INCLUDE...    such as 44=/tmp/bookworm/usr/include
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
for file in verbs cma; do for release in 44 56 65; do touch "abi/$file-$release.txt"; done; done
FERROWIRE_ABI_WRITE=1 cargo test --offline --quiet --test all c_source
for pair in "$@"; do
    release=${pair%%=*}
    program=$(mktemp)
    ${CC:-cc} -std=gnu11 -Wall -Werror -Wno-deprecated-declarations -Wno-bool-compare -Wno-type-limits -Wno-array-parameter \
        -DRELEASE="$release" -isystem "${pair#*=}" -o "$program" abi/layout.c
    for file in verbs cma; do "$program" $file > "abi/$file-$release.txt"; done
    rm "$program"
done
wc -l abi/*.txt
