#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fetches Debian packages into headers/SUITE without touching the host's package state.
# usage: apt.sh update SUITE | download SUITE PACKAGE...
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)/headers
verb=$1; suite=$2; shift 2
f=$here/.apt/$suite
mkdir -p "$f/state/lists/partial" "$f/cache/archives/partial" "$here/debs/$suite"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" > "$f/sources.list"
: > "$f/status"
o="-o Dir::State=$f/state -o Dir::State::status=$f/status -o Dir::Cache=$f/cache -o Dir::Etc::sourcelist=$f/sources.list -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root -o APT::Architecture=amd64"
if [ "$verb" = update ]; then nice -n 19 chrt -i 0 apt-get $o -qq update; else cd "$here/debs/$suite"; nice -n 19 chrt -i 0 apt-get $o -qq download "$@"; fi
