// SPDX-License-Identifier: MIT OR Apache-2.0
//! `scenarios.json`: what was set up, done and logged when frames were captured.
//!
//! Fields that are not named here may stand in the file and are passed over. What a file says is not held against what is
//! built here: an unknown verb or log line is read, and [`super::support`] says that it is missing.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use ferrowire::{AccessFlags, PathMtu};
use serde::{Deserialize, Deserializer};

/// Which end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It answers.
    Responder,
    /// It posts the work.
    Requester,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Responder => "responder",
            Role::Requester => "requester",
        })
    }
}

/// The file.
#[derive(Debug, Deserialize)]
struct File {
    cases: Vec<Case>,
}

/// A case.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Capture on the requester's wire, a file beside this one.
    pub capture: String,
    /// Capture on the responder's wire: another file where the wire between lost or changed frames.
    pub responder_capture: String,
    /// `RC`, `UC` or `UD`.
    pub service: String,
    /// Path MTU in bytes.
    #[serde(deserialize_with = "mtu")]
    pub path_mtu: PathMtu,
    /// Who posts the work.
    pub requester: End,
    /// Who answers.
    pub responder: End,
    /// Tag control information of the VLAN, if there is one.
    #[serde(default)]
    pub vlan_tci: Option<u16>,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
    /// Flow label that the address handles asked for.
    #[serde(default)]
    pub flow_label: u32,
    /// Partition key.
    pub pkey: u16,
    /// Queue key; UD.
    #[serde(default)]
    pub qkey: Option<u32>,
    /// The responder's memory.
    pub region: Region,
    /// What the requester posts.
    pub work: Work,
    /// What the responder posts.
    #[serde(default)]
    pub receives: Vec<Receive>,
    /// The responder posts it only when requests have been refused.
    #[serde(default)]
    pub receive_posted_late: bool,
    /// Timer code of RNR NAKs.
    pub min_rnr_timer: u8,
    /// ACK time-out code.
    pub ack_timeout: u8,
    /// Retries.
    pub retry_count: u8,
    /// Retries after RNR NAKs.
    pub rnr_retry: u8,
    /// READs and atomics outstanding.
    pub max_rd_atomic: u8,
    /// What the ends logged.
    pub logged: Logged,
}

/// One end.
#[derive(Clone, Debug, Deserialize)]
pub struct End {
    /// MAC address.
    #[serde(deserialize_with = "mac")]
    pub mac: [u8; 6],
    /// IP address.
    pub ip: IpAddr,
    /// Queue pair.
    pub qpn: u32,
    /// PSN of its first request.
    pub first_psn: u32,
    /// UDP source port, if it sent frames.
    #[serde(default)]
    pub udp_sport: Option<u16>,
}

/// The responder's memory.
#[derive(Clone, Debug, Deserialize)]
pub struct Region {
    /// Size.
    pub bytes: usize,
    /// First address, where a request names one.
    #[serde(default)]
    pub va: Option<u64>,
    /// Key, where a request names one.
    #[serde(default)]
    pub rkey: Option<u32>,
    /// Rights.
    #[serde(deserialize_with = "access")]
    pub access: AccessFlags,
}

/// What the requester posts.
#[derive(Clone, Debug, Deserialize)]
pub struct Work {
    /// Name of the operation, as in the captures' notes: `RDMA_WRITE` and so on.
    pub verb: String,
    /// Work requests, posted together.
    pub count: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Place of the bytes in the requester's memory, the same for all.
    pub local_offset: usize,
    /// Remote address of the first.
    #[serde(default)]
    pub remote_va: Option<u64>,
    /// Remote key.
    #[serde(default)]
    pub rkey: Option<u32>,
    /// How far the remote address moves from one to the next.
    #[serde(default)]
    pub remote_stride: u64,
    /// With the solicited event bit.
    #[serde(default)]
    pub solicited: bool,
    /// Immediate.
    #[serde(default)]
    pub immediate: Option<u32>,
    /// Key of the responder that a SEND invalidates: of a window that the responder bound before.
    #[serde(default)]
    pub invalidate_rkey: Option<u32>,
    /// Value that an atomic compares with or adds.
    #[serde(default)]
    pub compare_add: Option<u64>,
    /// Value that a compare and swap stores.
    #[serde(default)]
    pub swap: Option<u64>,
}

/// A receive that the responder posts.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Receive {
    /// Place in its memory.
    pub offset: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Log lines of the ends; [`super::log`] gives them a meaning.
#[derive(Clone, Debug, Deserialize)]
pub struct Logged {
    /// Of the requester.
    pub requester: Vec<String>,
    /// Of the responder.
    pub responder: Vec<String>,
}

impl Case {
    /// The end that plays a role.
    pub fn end(&self, role: Role) -> &End {
        match role {
            Role::Responder => &self.responder,
            Role::Requester => &self.requester,
        }
    }

    /// The log of a role.
    pub fn log(&self, role: Role) -> &[String] {
        match role {
            Role::Responder => &self.logged.responder,
            Role::Requester => &self.logged.requester,
        }
    }

    /// The capture on the wire of a role.
    pub fn capture(&self, role: Role) -> &str {
        match role {
            Role::Responder => &self.responder_capture,
            Role::Requester => &self.capture,
        }
    }

    /// What the file says that cannot be.
    fn check(&self) -> Result<()> {
        for (role, end) in [(Role::Requester, &self.requester), (Role::Responder, &self.responder)] {
            ensure!(end.qpn < 1 << 24, "{role}.qpn {:#x} has more than 24 bits; correct it", end.qpn);
            ensure!(
                end.first_psn < 1 << 24,
                "{role}.first_psn {:#x} has more than 24 bits; correct it",
                end.first_psn
            );
        }
        ensure!(
            self.requester.ip.is_ipv4() == self.responder.ip.is_ipv4(),
            "requester.ip and responder.ip are of different families; correct one"
        );
        ensure!(
            self.requester.ip != self.responder.ip,
            "requester.ip and responder.ip are the same, so frames cannot be told apart; correct one"
        );
        ensure!(self.region.bytes > 0, "region.bytes is 0; give the responder's memory its size");
        ensure!(
            self.region.bytes <= LARGEST && self.work.bytes <= LARGEST && self.work.local_offset <= LARGEST,
            "region.bytes, work.bytes or work.local_offset is over {LARGEST}; correct it"
        );
        ensure!(
            (1..=MOST).contains(&self.work.count),
            "work.count is {}; it must be 1 to {MOST}",
            self.work.count
        );
        let names_memory = self.work.verb.starts_with("RDMA_");
        for (what, there) in [
            ("work.remote_va", self.work.remote_va.is_some()),
            ("work.rkey", self.work.rkey.is_some()),
            ("region.va", self.region.va.is_some()),
            ("region.rkey", self.region.rkey.is_some()),
        ] {
            ensure!(there || !names_memory, "{what} is missing, which {} needs; add it", self.work.verb);
        }
        ensure!(
            self.work.invalidate_rkey.is_some() == (self.work.verb == "SEND_WITH_INV"),
            "work.invalidate_rkey goes with SEND_WITH_INV; correct one of them"
        );
        for receive in &self.receives {
            ensure!(
                receive.offset.checked_add(receive.bytes).is_some_and(|end| end <= self.region.bytes),
                "a receive of {} bytes at {} leaves the region of {} bytes; correct one",
                receive.bytes,
                receive.offset,
                self.region.bytes
            );
        }
        Ok(())
    }
}

/// Most bytes of a buffer: what a program would run in a simulation, and no typing error.
const LARGEST: usize = 1 << 30;

/// Most work requests.
const MOST: usize = 4096;

/// The cases of `folder`, or the one named.
///
/// # Errors
/// No such folder, file or case, or a file that makes no sense: in a line, with what to do.
pub fn read(folder: &Path, name: Option<&str>) -> Result<Vec<Case>> {
    ensure!(
        folder.is_dir(),
        "{}: no such folder; give one that holds scenarios.json and its captures, as sim/golden/v4 does",
        folder.display()
    );
    let path = folder.join("scenarios.json");
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "{}: cannot be read; give a folder that holds scenarios.json and its captures",
            path.display()
        )
    })?;
    let file: File = serde_json::from_str(&text).map_err(|error| {
        anyhow::anyhow!(
            "{}: {error}; correct the file, sim/golden/v4/scenarios.json is a model",
            path.display()
        )
    })?;
    ensure!(!file.cases.is_empty(), "{}: no cases; add some to `cases`", path.display());
    for (i, case) in file.cases.iter().enumerate() {
        case.check().with_context(|| format!("{}: case `{}`", path.display(), case.name))?;
        if file.cases[..i].iter().any(|other| other.name == case.name) {
            bail!("{}: two cases are called `{}`; rename one", path.display(), case.name);
        }
    }
    let Some(name) = name else { return Ok(file.cases) };
    let names: Vec<String> = file.cases.iter().map(|case| case.name.clone()).collect();
    let cases: Vec<Case> = file.cases.into_iter().filter(|case| case.name == name).collect();
    ensure!(!cases.is_empty(), "{}: no case `{name}`; choose one of {}", path.display(), names.join(", "));
    Ok(cases)
}

fn mtu<'de, D: Deserializer<'de>>(from: D) -> Result<PathMtu, D::Error> {
    let bytes = usize::deserialize(from)?;
    PathMtu::ALL.iter().copied().find(|mtu| mtu.bytes() == bytes).ok_or_else(|| {
        serde::de::Error::custom(format!("path_mtu {bytes} is not 256, 512, 1024, 2048 or 4096"))
    })
}

fn mac<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 6], D::Error> {
    let text = String::deserialize(from)?;
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|two| match two.len() {
            2 => u8::from_str_radix(two, 16).ok(),
            _ => None,
        })
        .collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        serde::de::Error::custom(format!("mac `{text}` is not six bytes such as 02:00:00:00:00:01"))
    })
}

fn access<'de, D: Deserializer<'de>>(from: D) -> Result<AccessFlags, D::Error> {
    let text = String::deserialize(from)?;
    let mut flags = AccessFlags::LOCAL_READ;
    for name in text.split('|').map(str::trim).filter(|name| !name.is_empty()) {
        flags |= match name {
            "LOCAL_READ" => AccessFlags::LOCAL_READ,
            "LOCAL_WRITE" => AccessFlags::LOCAL_WRITE,
            "REMOTE_WRITE" => AccessFlags::REMOTE_WRITE,
            "REMOTE_READ" => AccessFlags::REMOTE_READ,
            "REMOTE_ATOMIC" => AccessFlags::REMOTE_ATOMIC,
            "MW_BIND" => AccessFlags::MW_BIND,
            _ => {
                let why = format!("access `{name}` is unknown; rights are LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, MW_BIND");
                return Err(serde::de::Error::custom(why));
            }
        };
    }
    Ok(flags)
}
