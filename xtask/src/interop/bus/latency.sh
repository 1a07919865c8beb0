# SPDX-License-Identifier: MIT OR Apache-2.0
bind_both
both lat send -- -n 20 -s 64 --json
in_json simulated true
both lat write -- -n 20
both lat read -- -n 20
both lat atomic -- -n 20
