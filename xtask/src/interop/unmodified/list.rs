// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cases of the suite `verbs`.

use super::expect::Expect;
use super::pyverbs::{self, Module};
use super::{Cards, Run, Stock};
use crate::interop::Case;

/// Variables with which UCX says what way it takes.
const UCX_RC: &[(&str, &str)] =
    &[("UCX_TLS", "rc_v"), ("UCX_NET_DEVICES", "ferrowire0:1"), ("UCX_LOG_LEVEL", "info")];
const UCX_UD: &[(&str, &str)] =
    &[("UCX_TLS", "ud_v"), ("UCX_NET_DEVICES", "ferrowire0:1"), ("UCX_LOG_LEVEL", "info")];
/// Processes of MPI have devices of other names.
const UCX_MPI: &[(&str, &str)] = &[("UCX_TLS", "rc_v"), ("UCX_LOG_LEVEL", "info")];
/// libfabric offers one provider only.
const FABRIC: &[(&str, &str)] = &[("FI_PROVIDER", "verbs")];
/// qperf knows LIDs only.
const LIDS: &[(&str, &str)] = &[("FERROWIRE_LIDS", "1")];

/// All cases.
pub fn cases() -> Vec<Box<dyn Case>> {
    let mut all = tools();
    all.extend(perftest());
    all.extend(qperf());
    all.extend(ucx());
    all.extend(pyverbs::modules().map(python));
    all.extend(openmpi());
    all.extend(managed());
    all.extend(newer());
    all.extend(verilated());
    all.into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect()
}

/// Stands for a TCP port in options of a [managed](Run::Managed) pair.
pub const PORT: &str = "PORT";

/// Words of options of a managed pair, with the server's address for `ADDRESS`, and a TCP port for `PORT`.
pub fn words<'a>(options: &'a str, address: &'a str, port: &'a str) -> Vec<&'a str> {
    let of = |word| match word {
        "ADDRESS" => address,
        PORT => port,
        other => other,
    };
    options.split_whitespace().map(of).collect()
}

/// A pair with nothing special.
fn pair(name: &str, program: &'static str, options: &[&str], expect: Expect) -> Stock {
    Stock {
        name: name.into(),
        program,
        options: options.iter().copied().map(String::from).collect(),
        run: Run::Pair,
        cards: Cards::Emulated,
        environment: &[],
        port: Some("-p"),
        quick: false,
        newer: false,
        expect,
    }
}

fn quick(stock: Stock) -> Stock {
    Stock { quick: true, ..stock }
}

/// Those of ibverbs-utils.
fn tools() -> Vec<Stock> {
    let one = |name, program, options: &[&str], words| Stock {
        run: Run::Alone,
        port: None,
        ..pair(name, program, options, Expect::Words(words))
    };
    let two = |name: &str, program: &'static str, options: &[&str], bytes: u64, rounds: u64| {
        let rounds_word = rounds.to_string();
        let all: Vec<&str> = options.iter().copied().chain(["-n", &rounds_word]).collect();
        pair(name, program, &all, Expect::Pingpong { bytes, rounds })
    };
    let mut all = vec![
        one("devices", "ibv_devices", &[], &["ferrowire0", "00fe00fffe000001"]),
        one(
            "devinfo",
            "ibv_devinfo",
            &["-v"],
            &[
                "hca_id:\tferrowire0",
                "PORT_ACTIVE",
                "link_layer:\t\tEthernet",
                "10.7.0.1, RoCE v2",
                "max_qp:",
            ],
        ),
        Stock {
            run: Run::Watch,
            ..one(
                "asyncwatch",
                "ibv_asyncwatch",
                &[],
                &["ferrowire0: async event FD", "IBV_EVENT_DEVICE_FATAL"],
            )
        },
    ];
    for (kind, program, options, bytes) in [
        ("rc", "ibv_rc_pingpong", &["-g", "0", "-c"][..], 4096),
        ("uc", "ibv_uc_pingpong", &["-g", "0", "-c"], 4096),
        ("ud", "ibv_ud_pingpong", &["-g", "0", "-c", "-s", "1024"], 1024),
        ("srq", "ibv_srq_pingpong", &["-g", "0", "-c", "-q", "8"], 4096),
    ] {
        let plain = two(&format!("{kind}-pingpong"), program, options, bytes, 200);
        all.push(Stock { quick: kind == "rc", ..plain });
        let events: Vec<&str> = options.iter().copied().chain(["-e"]).collect();
        all.push(two(&format!("{kind}-pingpong-events"), program, &events, bytes, 200));
    }
    all.push(two(
        "rc-pingpong-ipv4",
        "ibv_rc_pingpong",
        &["-g", "1", "-c", "-m", "4096", "-s", "100000"],
        100_000,
        200,
    ));
    all.push(two("rc-pingpong-new-send", "ibv_rc_pingpong", &["-g", "0", "-c", "-N"], 4096, 200));
    all
}

/// An operation of perftest, the services that have it, and the size that is taken without an option.
const OPERATIONS: [(&str, &[&str]); 4] =
    [("write", &["RC", "UC"]), ("read", &["RC"]), ("send", &["RC", "UC", "UD"]), ("atomic", &["RC"])];

/// Programs of perftest, by operation: bandwidth, and latency.
const PERFTEST: [(&str, [&str; 2]); 4] = [
    ("write", ["ib_write_bw", "ib_write_lat"]),
    ("read", ["ib_read_bw", "ib_read_lat"]),
    ("send", ["ib_send_bw", "ib_send_lat"]),
    ("atomic", ["ib_atomic_bw", "ib_atomic_lat"]),
];

/// Those of perftest: each operation, service and kind of measurement, plain and with each option that it has.
fn perftest() -> Vec<Stock> {
    let mut all = Vec::new();
    for ((operation, services), (_, programs)) in OPERATIONS.into_iter().zip(PERFTEST) {
        for service in services {
            for program in programs {
                all.extend(measured(operation, service, program));
            }
        }
    }
    all
}

/// One program of perftest over one service, in all variants.
fn measured(operation: &str, service: &str, program: &'static str) -> Vec<Stock> {
    let bandwidth = program.ends_with("_bw");
    let base = format!("{operation}-{}-{}", if bandwidth { "bw" } else { "lat" }, service.to_lowercase());
    let case = |more: &str, options: &[&str], sizes: Vec<u64>, iterations: u64, queue_pairs: u64| {
        let iterations_word = iterations.to_string();
        let mut all = vec!["-F", "-c", service, "-n", &iterations_word];
        // perftest has no service to choose for these.
        if matches!(operation, "read" | "atomic") {
            all.drain(1..3);
        }
        all.extend(options);
        let name = if more.is_empty() { base.clone() } else { format!("{base}-{more}") };
        pair(&name, program, &all, Expect::Perftest { sizes, iterations: iterations * queue_pairs })
    };
    // What is measured without an option for the size; datagrams get one, for theirs depends on the MTU.
    let (size, options): (u64, &[&str]) = match (operation, service, bandwidth) {
        ("atomic", ..) => (8, &[]),
        (_, "UD", _) => (1024, &["-s", "1024"]),
        (_, _, true) => (65536, &[]),
        _ => (2, &[]),
    };
    let with =
        |option: &'static str| -> Vec<&str> { options.iter().copied().chain(option.split(' ')).collect() };
    let is_quick = matches!(base.as_str(), "write-bw-rc" | "read-lat-rc" | "send-bw-rc");
    let mut all = vec![Stock { quick: is_quick, ..case("", options, vec![size], 100, 1) }];
    if operation == "atomic" {
        all.push(case("swap", &["-A", "CMP_AND_SWAP"], vec![8], 100, 1));
    } else {
        // Powers of two: of datagrams up to the MTU.
        let last = if service == "UD" { 12 } else { 23 };
        all.push(case("all", &["-a"], (1..=last).map(|power| 1 << power).collect(), 5, 1));
    }
    if bandwidth {
        all.push(case("both", &with("-b"), vec![size], 100, 1));
        all.push(case("four", &with("-q 4"), vec![size], 50, 4));
    }
    // perftest has no events for WRITE.
    if operation != "write" {
        all.push(case("events", &with("-e"), vec![size], 100, 1));
    }
    all.push(case("old-post", &with("--use_old_post_send"), vec![size], 100, 1));
    if matches!(operation, "write" | "send") {
        all.push(case("inline", &["-s", "64", "-I", "64"], vec![64], 100, 1));
    }
    if (operation, service, bandwidth) == ("send", "RC", true) {
        all.push(case("srq", &with("--use-srq"), vec![size], 100, 1));
    }
    // The connection manager of perftest has no UC.
    if service != "UC" {
        let managed = Run::Managed { own: "-R", peer: "-R ADDRESS", ends: true };
        all.push(Stock { run: managed, ..case("managed", options, vec![size], 100, 1) });
    }
    all
}

/// Those of qperf: it has no address but a LID, which the library makes of an IPv4 address if it is told to.
fn qperf() -> Vec<Stock> {
    let sets: [(&str, &[&str]); 4] = [
        (
            "rc",
            &[
                "rc_lat",
                "rc_bw",
                "rc_bi_bw",
                "rc_rdma_read_lat",
                "rc_rdma_read_bw",
                "rc_rdma_write_lat",
                "rc_rdma_write_bw",
                "rc_rdma_write_poll_lat",
            ],
        ),
        (
            "uc",
            &[
                "uc_lat",
                "uc_bw",
                "uc_bi_bw",
                "uc_rdma_write_lat",
                "uc_rdma_write_bw",
                "uc_rdma_write_poll_lat",
            ],
        ),
        ("ud", &["ud_lat", "ud_bw", "ud_bi_bw"]),
        ("verify", &["rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]),
    ];
    let case = |(set, tests): (&str, &'static [&'static str])| {
        // A second each, and long waits for each other: the machine may be busy.
        let options: Vec<&str> = ["-t", "1", "-to", "60"].into_iter().chain(tests.iter().copied()).collect();
        let pair = pair(&format!("qperf-{set}"), "qperf", &options, Expect::Qperf(tests.to_vec()));
        Stock { run: Run::Server, environment: LIDS, port: Some("-lp"), ..pair }
    };
    sets.into_iter().map(case).collect()
}

/// Those of `ucx_perftest`: its UCP tests, for UCT's have a test of each transport for their own.
fn ucx() -> Vec<Stock> {
    let mut all = Vec::new();
    for (service, transport, environment) in [("rc", "rc_verbs", UCX_RC), ("ud", "ud_verbs", UCX_UD)] {
        for (kind, test) in [
            ("tag-lat", "tag_lat"),
            ("tag-bw", "tag_bw"),
            ("put-lat", "ucp_put_lat"),
            ("put-bw", "ucp_put_bw"),
            ("get", "ucp_get"),
            ("am-lat", "ucp_am_lat"),
            ("am-bw", "ucp_am_bw"),
        ] {
            let case = pair(
                &format!("ucx-{kind}-{service}"),
                "ucx_perftest",
                &["-t", test, "-n", "200", "-w", "10"],
                Expect::Ucx { transport, rounds: 200 },
            );
            all.push(Stock { environment, quick: (service, kind) == ("rc", "tag-lat"), ..case });
        }
        // Large enough for a READ or WRITE of what the receiver or sender has registered.
        let large = pair(
            &format!("ucx-tag-large-{service}"),
            "ucx_perftest",
            &["-t", "tag_bw", "-n", "20", "-w", "2", "-s", "1048576"],
            Expect::Ucx { transport, rounds: 20 },
        );
        all.push(Stock { environment, ..large });
    }
    all
}

/// The tests of pyverbs of a module.
fn python(module: Module) -> Stock {
    let Module { modules, row, quick } = module;
    let name = if modules == row { row.trim_start_matches("test_") } else { "vendors" };
    let options: Vec<&str> =
        ["--dev", "ferrowire0", "-v"].into_iter().chain(modules.split_whitespace()).collect();
    let case = pair(&format!("pyverbs-{name}"), "run_tests.py", &options, Expect::Pyverbs(row));
    Stock { run: Run::Pyverbs, port: None, quick, ..case }
}

/// Four processes of MPI, by MPI for Python.
fn openmpi() -> Vec<Stock> {
    let script = include_str!("program.py");
    // The way is UCX's, or none.
    let options = [
        "-n",
        "4",
        "--oversubscribe",
        "--mca",
        "pml",
        "ucx",
        "--mca",
        "btl",
        "^openib,ofi",
        "--mca",
        "osc",
        "^ucx",
    ];
    let case = pair("openmpi", "mpirun.openmpi", &options, Expect::Mpi { ranks: 4 });
    vec![Stock { run: Run::Mpi(script), environment: UCX_MPI, port: None, ..case }]
}

/// Programs of the connection manager.
fn managed() -> Vec<Stock> {
    let managed = |name, program, options: &[&str], own, peer, expect| Stock {
        run: Run::Managed { own, peer, ends: program != "cmtime" },
        port: None,
        ..pair(name, program, options, expect)
    };
    let fabric = |name, endpoint| Stock {
        environment: FABRIC,
        ..managed(
            name,
            "fi_pingpong",
            &["-p", "verbs", "-e", endpoint, "-I", "20", "-c"],
            "-B PORT",
            "-P PORT localhost",
            Expect::Fabric { rounds: 20 },
        )
    };
    vec![
        quick(managed(
            "rping",
            "rping",
            &["-v", "-V", "-C", "10", "-S", "1000"],
            "-s -a ADDRESS",
            "-c -a ADDRESS",
            Expect::Rping { rounds: 10 },
        )),
        managed(
            "ucmatose",
            "ucmatose",
            &[],
            "-b ADDRESS",
            "-s ADDRESS",
            Expect::Words(&["data transfers complete", "return status 0"]),
        ),
        managed(
            "ucmatose-many",
            "ucmatose",
            &["-c", "10", "-C", "20", "-S", "1000"],
            "-b ADDRESS",
            "-s ADDRESS",
            Expect::Words(&["data transfers complete", "return status 0"]),
        ),
        managed(
            "udaddy",
            "udaddy",
            &[],
            "-b ADDRESS",
            "-s ADDRESS",
            Expect::Words(&["data transfers complete", "return status 0"]),
        ),
        managed(
            "cmtime",
            "cmtime",
            &["-c", "20"],
            "-b ADDRESS",
            "-s ADDRESS",
            Expect::Words(&["resolve addr", "connect", "disconnect"]),
        ),
        Stock {
            run: Run::Alone,
            port: None,
            environment: FABRIC,
            ..pair("fi-info", "fi_info", &["-p", "verbs"], Expect::Words(&["provider: verbs", "FI_EP_MSG"]))
        },
        fabric("fi-pingpong-msg", "msg"),
        fabric("fi-pingpong-rdm", "rdm"),
    ]
}

/// Programs of the newer Debian of [`Newer`](crate::peers::Newer): the same, a few of each package.
fn newer() -> Vec<Stock> {
    let names = [
        "devices",
        "devinfo",
        "rc-pingpong",
        "ud-pingpong-events",
        "srq-pingpong",
        "write-bw-rc",
        "write-bw-rc-managed",
        "read-lat-rc",
        "send-bw-rc-events",
        "send-lat-ud",
        "atomic-bw-rc",
        "qperf-rc",
        "rping",
        "ucmatose",
        "udaddy",
    ];
    let all = [tools(), perftest(), qperf(), managed()].into_iter().flatten();
    all.filter(|case| names.contains(&case.name.as_str()))
        .map(|case| Stock { name: format!("{}-newer", case.name), quick: false, newer: true, ..case })
        .collect()
}

/// One of perftest and one of the connection manager on the design of 64 bytes a beat.
fn verilated() -> Vec<Stock> {
    let config = "generic-64b";
    let write = pair(
        "verilated-write-bw",
        "ib_write_bw",
        &["-F", "-c", "RC", "-s", "65536", "-n", "50"],
        Expect::Perftest { sizes: vec![65536], iterations: 50 },
    );
    let rping = Stock {
        run: Run::Managed { own: "-s -a ADDRESS", peer: "-c -a ADDRESS", ends: true },
        port: None,
        ..pair(
            "verilated-rping",
            "rping",
            &["-v", "-V", "-C", "10", "-S", "1000"],
            Expect::Rping { rounds: 10 },
        )
    };
    [write, rping].map(|case| Stock { cards: Cards::Verilated(config), ..case }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_of_perftest_is_measured_over_each_service_that_it_has() {
        let all = perftest();
        let names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        for name in [
            "write-bw-rc",
            "write-lat-uc-inline",
            "read-bw-rc-all",
            "read-lat-rc-events",
            "send-bw-ud-four",
            "send-lat-uc-old-post",
            "send-bw-rc-srq",
            "atomic-bw-rc-both",
            "atomic-lat-rc-swap",
        ] {
            assert!(names.contains(&name), "{name} is none of {names:?}");
        }
        // WRITE has no events, and atomics have one size.
        assert!(!names.iter().any(|name| name.starts_with("write-") && name.ends_with("events")));
        assert!(!names.contains(&"atomic-bw-rc-all"));
        let four = all.iter().find(|case| case.name == "send-bw-ud-four").unwrap();
        assert!(matches!(&four.expect, Expect::Perftest { sizes, iterations: 200 } if sizes == &[1024]));
        assert!(four.options.join(" ").ends_with("-c UD -n 50 -s 1024 -q 4"));
    }

    #[test]
    fn the_quick_cases_are_few() {
        let all = cases();
        let quick: Vec<String> = all.iter().filter(|case| case.quick()).map(|case| case.name()).collect();
        for name in ["rc-pingpong", "write-bw-rc", "read-lat-rc", "send-bw-rc", "ucx-tag-lat-rc"] {
            assert!(quick.iter().any(|quick| quick == name), "{name} is none of {quick:?}");
        }
        let tests = quick.iter().filter(|name| name.starts_with("pyverbs-")).count();
        assert!(tests == 10 && quick.len() <= 16, "{quick:?}");
    }
}
