#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes @TOP@.bit with Yosys, nextpnr and ecppack, or the programs that YOSYS, NEXTPNR and ECPPACK name:
#   sh build.sh [FOLDER]
# FOLDER is where everything goes; without it that is this folder's name with .build behind it. SEED is of the placer; each gives another placement.
# Where most block RAMs are in use, it is placed twice: their sites come out of the first placement (sites.awk).
# If the router does not come to an end, LUTs stay free where wires are short, and it is placed anew, AGAIN times at most (@AGAIN@).
# Fails, and leaves no @TOP@.bit, where a clock is slower than it must be and where nets find no wires.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here.build}
seed=${SEED:-1}
again=${AGAIN:-@AGAIN@}
maps=@TOP@.maps

say() { echo "$1" >&2; }
fail() { say "error: $1"; exit 1; }

case $seed:$again in
*[!0-9:]* | :* | *: | 0?*:* | *:0?*) fail "SEED and AGAIN are numbers" ;;
esac
mkdir -p "$out"
cd "$out"
rm -rf @TOP@.bit "$maps"

# Programs run beside the script, or a signal to it would wait for them.
running=
once() {
    running=yes
    "$@" &
    status=0
    wait "$!" || status=$?
    running=
    return "$status"
}
stop() {
    if [ -n "$running" ] && [ -n "${!:-}" ]; then { kill "$!" && wait "$!"; } 2> /dev/null || true; fi
    running=
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 131' QUIT
trap 'exit 143' TERM

# What crashes is done again, once.
attempt() {
    status=0
    "$@" || status=$?
    case $status in
    132 | 134 | 135 | 136 | 139)
        say "it crashed (signal $((status - 128))); once again"
        status=0
        "$@" || status=$?
        ;;
    esac
    return "$status"
}

# Whether most block RAMs are in use: wires are short beside their rows then.
crowded() {
    memories=$(grep -cE '"type": "(DP16KD|PDPW16KD)"' mapped.json || true)
    [ -n "@ROWS@" ] && [ $((memories * @CROWDED_OF@)) -gt $((@MEMORIES@ * @CROWDED@)) ]
}

# LUTs beside rows of block RAMs, a line for each tile: column, row, how many.
beside() {
    for row in @ROWS@; do
        for x in $(seq @FIRST@ @LAST@); do
            echo "$x $((row - 1)) @LUTS@"
            echo "$x $((row + 1)) @LUTS@"
        done
    done
}

# mapped.json with block RAMs on the sites of sites.txt, and with cells that do nothing but take the LUTs of free.txt.
leave() {
    awk -v luts="@LUT_NAMES@" '
        FILENAME == "sites.txt" { site[$1] = $2; sites++; next }
        FILENAME == "free.txt" { left[$1, $2] = $3; next }
        first {
            print "            \"BEL\": \"" first "\"" (/^ *\}/ ? "" : ",")
            first = ""
            sites--
        }
        { print }
        $0 == "    \"@TOP@\": {" { top = 1 }
        /^    \}/ { top = 0 }
        top && /^        "/ {
            name = $0
            sub(/^ *"/, "", name)
            sub(/": *\{$/, "", name)
            cell = name in site ? site[name] : ""
        }
        top && cell && $0 == "          \"attributes\": {" {
            first = cell
            cell = ""
        }
        top && $0 == "      \"cells\": {" {
            found = 1
            split(luts, name_of, " ")
            for (tile in left) {
                split(tile, at, SUBSEP)
                for (lut = 1; lut <= left[tile]; lut++) {
                    printf "        \"left_free_X%d_Y%d_%s\": {\"hide_name\": 0, \"type\": \"LUT4\", ", at[1], at[2], name_of[lut]
                    printf "\"parameters\": {\"INIT\": \"0000000000000000\"}, "
                    printf "\"attributes\": {\"BEL\": \"X%d/Y%d/%s\"}, ", at[1], at[2], name_of[lut]
                    printf "\"port_directions\": {\"A\": \"input\", \"B\": \"input\", \"C\": \"input\", \"D\": \"input\", \"Z\": \"output\"}, "
                    print "\"connections\": {\"A\": [\"0\"], \"B\": [\"0\"], \"C\": [\"0\"], \"D\": [\"0\"], \"Z\": []}},"
                }
            }
        }
        END { exit found ? (sites ? 11 : 0) : 10 }' sites.txt free.txt mapped.json
}

# Runs the placer: a netlist, then the command.
place() {
    netlist=$1
    shift
    # The other placer's wires are a third longer where three quarters of the cells are in use.
    attempt once "$@" --json "$netlist" --placer static --router router2 --no-route --write placed.json --log place.log ||
        fail "it cannot be placed, see $out/place.log"
}

# How many wires more than one net wants, once the router gets no further: it would go on for ever.
stuck() {
    awk '
        match($0, /iter=[0-9]+/) { round = substr($0, RSTART + 5, RLENGTH - 5) + 0 }
        match($0, /overused=[0-9]+/) {
            wires = substr($0, RSTART + 9, RLENGTH - 9) + 0
            if (best == "" || wires < least) { least = wires; best = round }
        }
        END {
            # Once many are wanted twice again, it gets worse from round to round.
            if (best != "" && least < @FEW@) ended = wires >= @FEW@ || round >= best + @LAST_PATIENCE@
            else if (best != "") ended = round >= best + @PATIENCE@
            if (ended) print least
        }' route.log
}

# free.txt with more LUTs of each tile round which such wires are, by nextpnr's maps of the last rounds: a file for each, a line for each column.
learn() {
    # The last one may not be whole.
    last=$(ls "$maps" | sed -n 's/^heat_congestion_by_coordinate_\([0-9]*\)\.csv$/\1/p' | sort -n | sed '$d' | tail -n @MAPS@ |
        sed "s|.*|$maps/heat_congestion_by_coordinate_&.csv|")
    # Tiles that have LUTs.
    grep -o '"NEXTPNR_BEL": "X[0-9]*/Y[0-9]*/SLICE' placed.json | sed 's|.*"X\([0-9]*\)/Y\([0-9]*\)/SLICE|\1 \2|' | sort -u > tiles.txt
    awk '
        FILENAME == "free.txt" { left[$1, $2] = $3; next }
        FILENAME != "tiles.txt" {
            count = split($0, wires, ",")
            for (y = 1; y <= count; y++)
                if (wires[y] + 0 > 0) wanted[FNR - 1, y - 1] += wires[y]
            next
        }
        {
            for (x = $1 - @REACH@; x <= $1 + @REACH@; x++)
                for (y = $2 - @REACH@; y <= $2 + @REACH@; y++)
                    if ((x, y) in wanted) near[$1, $2] += wanted[x, y]
            if (near[$1, $2] > worst) worst = near[$1, $2]
        }
        END {
            for (tile in near)
                if (near[tile] > 0 && near[tile] * @SHARE_OF@ >= worst * @SHARE@) {
                    more = left[tile] + @STEP@ < @MOST@ ? left[tile] + @STEP@ : @MOST@
                    if (more > left[tile]) left[tile] = more
                }
            for (tile in left)
                if (left[tile] > 0) {
                    split(tile, at, SUBSEP)
                    print at[1], at[2], left[tile]
                }
        }' free.txt $last tiles.txt > unsorted.txt && sort -k 1,1n -k 2,2n unsorted.txt
}

# Runs the router; `left` is empty where it came to an end. Nets of the latest paths would not give way to others (--no-tmdriv).
route() {
    rm -rf "$maps" @TOP@.config
    mkdir "$maps"
    : > route.log
    left=
    running=yes
    "$@" --json to-route.json --no-pack --no-place --no-tmdriv --router2-heatmap "$maps/heat" --report @TOP@.report.json --textcfg @TOP@.config --log route.log &
    while [ -z "$left" ] && kill -0 "$!" 2> /dev/null; do
        sleep 2
        left=$(stuck)
    done
    if [ -n "$left" ]; then
        stop
        return 0
    fi
    status=0
    wait "$!" || status=$?
    running=
    return "$status"
}

# Clocks, and whether all are as fast as they must be. Of one that a PLL makes nextpnr knows only where it packs what it is to reach.
clocks() {
    awk -F "'" '
        /Max frequency for clock/ {
            sub(/^\$glbnet\$/, "", $2)
            sub(/\$TRELLIS_IO_IN$/, "", $2)
            split($3, word, " ")
            if (FILENAME == "place.log") placed[$2] = word[6]
            else { reached[$2] = word[2]; wanted[$2] = word[6] }
        }
        END {
            unknown = 1
            for (clock in reached) {
                unknown = 0
                if (clock in placed) wanted[clock] = placed[clock]
                missed = !(reached[clock] + 0 >= wanted[clock] + 0)
                printf "clock %s reaches %s MHz, wanted are %s MHz%s\n", clock, reached[clock], wanted[clock], missed ? ": too slow" : ""
                slow = slow || missed
            }
            for (clock in placed) if (!(clock in reached)) unknown = 1
            exit unknown ? 11 : slow ? 10 : 0
        }' place.log route.log
}

say "mapping ($out/yosys.log)"
files=$(while read -r file; do printf '"%s/%s" ' "$here" "$file"; done < "$here/files.f")
cat > map.ys <<END
read_verilog -noautowire $files
@MAP@write_json mapped.json
END
attempt once "${YOSYS:-yosys}" -q -l yosys.log -s map.ys || fail "it cannot be mapped, see $out/yosys.log"

set -- "${NEXTPNR:-nextpnr-ecp5}" @DEVICE@ --lpf "$here/@TOP@.lpf" --seed "$seed" --timing-allow-fail --quiet
another="another placement may do better (SEED=$((seed + 1)))"
: > sites.txt
: > free.txt
if crowded; then
    say "placing, for the block RAMs ($out/place.log)"
    place mapped.json "$@"
    say "looking for sites for the block RAMs"
    once awk -v seed="$seed" -f "$here/sites.awk" placed.json > sites.txt || fail "awk finds no sites for the block RAMs"
    [ "$(wc -l < sites.txt)" -eq "$memories" ] || fail "$out/placed.json has other block RAMs than the $memories of $out/mapped.json"
    beside > unsorted.txt
    sort -k 1,1n -k 2,2n unsorted.txt > free.txt
fi
while :; do
    status=0
    leave > spread.json || status=$?
    case $status in
    0) ;;
    10) fail "there is no module @TOP@ with cells in $out/mapped.json" ;;
    11) fail "block RAMs that were placed are not in $out/mapped.json" ;;
    *) fail "awk cannot write $out/spread.json" ;;
    esac
    say "placing, with $(awk '{ sum += $3 } END { print sum + 0 }' free.txt) LUTs left free ($out/place.log)"
    place spread.json "$@"
    # Settings of the router for which there are no options.
    sed 's|"settings": {|&@SETTINGS@|' placed.json > to-route.json
    grep -q '@SETTING@' to-route.json || fail "there are no settings in $out/placed.json"

    say "routing ($out/route.log)"
    attempt route "$@" || fail "it cannot be routed, see $out/route.log"
    [ -n "$left" ] || break
    why="the router leaves $left wires wanted by more than one net"
    [ "$again" -gt 0 ] || fail "$why; $another"
    again=$((again - 1))
    learn > more.txt || fail "awk cannot read the maps of $out/$maps"
    if cmp -s more.txt free.txt; then fail "$why, and there are no more LUTs to leave free; $another"; fi
    mv more.txt free.txt
    say "$why; more LUTs stay free where wires are short"
done
rm -rf "$maps"

status=0
clocks >&2 || status=$?
case $status in
0) ;;
10) fail "a clock is too slow; $another" ;;
*) fail "nextpnr does not tell how fast each clock is, see $out/place.log and $out/route.log" ;;
esac
attempt once "${ECPPACK:-ecppack}" --compress @TOP@.config packing.bit || fail "it cannot be packed"
mv packing.bit @TOP@.bit
echo "$out/@TOP@.bit"
