// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of RDMA that Debian packages, unmodified, for this machine: they run with the libraries of `cargo xtask verbs`.
//!
//! Only the programs are fetched, and the libraries they need that are no part of a small system; the C library and the compilers' libraries are this
//! machine's. Each package is of one version, whose hash is known here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};
use sha2::{Digest, Sha256};

use super::debian::{Apt, Suites};
use crate::workspace;

/// The release that they are of.
const SUITES: Suites = &["bookworm"];

/// Form of the folder: another one when what is done with the packages changes.
const FORM: u32 = 2;

/// Package, version, and SHA-256 of its file.
const PACKAGES: [(&str, &str, &str); 32] = [
    // Tools of rdma-core, perftest and qperf. perftest links the two libraries; it uses the first for multicast alone.
    ("ibverbs-utils", "44.0-2", "610423d011908d21d8bbda185af96d63cd8b3b8a90ab187e0992253eae249049"),
    ("rdmacm-utils", "44.0-2", "5f1a69772052fe5df1730a7511d069fda506a395cd5defd744d9c5626f22d57b"),
    ("perftest", "4.5+0.17-1", "d5bb8f968762295021e89548b983953787047676a406cc38f98559cc5332fcdb"),
    ("qperf", "0.4.11-3", "9d48a4d34ac49c2ec42a2dfcd5a08e358ef97ea646a8a0ee72ed71729bb18f36"),
    ("libibumad3", "44.0-2", "0297f4f6a29d7870ea3c8c85b2b2bddce2b665a6e7b17114dce82a5087442a32"),
    ("libpci3", "1:3.9.0-4", "75519023eb1f0cdc556709b109765e2ea36f6e5c66b8ca94cec45843b3e3bee7"),
    // UCX.
    ("ucx-utils", "1.13.1-1", "bd9ea195418233ddcfd9c64b66c97feb23ff5dd4e0ed4a29039199cb48f4f218"),
    ("libucx0", "1.13.1-1", "f636d9893abece6a62ff943102b0caebeea8ba05c110550f5c8e6f01b015d3b5"),
    ("libnuma1", "2.0.16-1", "639e1ab6bd66ead40db8a22c332d7199679fa22db261cac34444eb8eb4c17dda"),
    ("libgomp1", "12.2.0-14+deb12u1", "48fec46bda7f5b1638b9e959889bfbc20491247d402d120bb152687eb48143d7"),
    // libfabric, with the libraries of other vendors' devices that it links.
    ("libfabric-bin", "1.17.0-3", "2e9c8c33ca900f5f49c80c43a1b4a8149ff809f74ccba9b25cdb2fa2a0973163"),
    ("libfabric1", "1.17.0-3", "1df0b3acb9a55e43152621015f941457fe63cb9866868f2c2df2c20d34604a22"),
    ("libatomic1", "12.2.0-14+deb12u1", "fbd4e154a6b444229ea002cc209df099209c0adc09102e5fd21239a3d2b55e2d"),
    (
        "libpsm-infinipath1",
        "3.3+20.604758e7-6.2",
        "872325ca09249b99e7cfe9e41da438b31084f32f969f80f85813482a4ae2ff37",
    ),
    ("libpsm2-2", "11.2.185-2", "38ad6400906ae84345362aa366c7a1900e9cbcce06fb6ed35bf5dab414ec2939"),
    // Python, pyverbs with its tests, and MPI for Python.
    ("python3-pyverbs", "44.0-2", "92cc7388a134837a89ebe3f231203ff4d4d863be1db7ba112b06e0a0af3fd263"),
    ("python3-mpi4py", "3.1.4-2+b2", "517079a3889e38c780cf168bd4c32c7cca3d3d121478e57cc78d579a09806aa7"),
    (
        "python3.11-minimal",
        "3.11.2-6+deb12u8",
        "4aba533f7cc5e7b93b7ff24482840e96813f5bcde9cce028395b65a0d799ccee",
    ),
    ("libpython3.11", "3.11.2-6+deb12u8", "63845d53d5f64d2362cfb6007ec175ad1c6044cebe60a1885eff76d2ce637c35"),
    (
        "libpython3.11-minimal",
        "3.11.2-6+deb12u8",
        "f3beaa03994ffedacf73c43a0843d53b062d347115d8af65bee2034552a4e6f9",
    ),
    (
        "libpython3.11-stdlib",
        "3.11.2-6+deb12u8",
        "890b3540dad8a1ccc0deeca025db735bcc82629a76adacbe3b50fcc06ed528ca",
    ),
    ("libexpat1", "2.5.0-1+deb12u2", "2255e62fc22a86d2c544b8a3f516da9aee19383ad5742722ab4ce7f66a30dbc8"),
    ("libffi8", "3.4.4-1", "6d9f6c25c30efccce6d4bceaa48ea86c329a3432abb360a141f76ac223a4c34a"),
    ("zlib1g", "1:1.2.13.dfsg-1", "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4"),
    // OpenMPI.
    ("openmpi-bin", "4.1.4-3+b1", "555300f03e3c3b02d13dc1c44ece592728b790b71a0d138ebe695d4e267bf8bb"),
    ("openmpi-common", "4.1.4-3", "42c66fbf7746b44abfe1f4ff74c00bc272ad947ad65214b8610361695f8f7262"),
    ("libopenmpi3", "4.1.4-3+b1", "acbb84293aa092a49a457a724d293ff0bcceabf297f2828ef9e8cad08b28fc99"),
    (
        "libevent-core-2.1-7",
        "2.1.12-stable-8",
        "4cebf4a24fb222ddbc5569df9960c5ff2da8b7ed71a02e13c79a59dcaf3b518a",
    ),
    (
        "libevent-pthreads-2.1-7",
        "2.1.12-stable-8",
        "798bbe7f492e176c287fc211e4a670eb64b10952720a036927357980d9a4a4b0",
    ),
    ("libhwloc15", "2.9.0-1", "4e7194b5d9adbb1a7d11a9501a4be4a4fa22876b69c73b7998056f552962c0e4"),
    ("libpmix2", "4.2.2-1+deb12u1", "fe19bbea5a23897618ef4c54b097366a834bd6c7157276ef4375d053ac2ecd1e"),
    ("libmunge2", "0.5.15-2+deb12u1", "533a38220c7f2a38a1130f5f80033d1a07723880fa352299b22a10ba99ce826e"),
];

/// Names what all was made of; written last.
const STAMP: &str = "packages.txt";

/// The programs.
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Fetches them, unless they are there.
    ///
    /// # Errors
    /// Debian's packages cannot be had, or are others than those known here.
    pub fn get() -> Result<Programs> {
        let folder = workspace::target().join("programs");
        let recipe: String =
            PACKAGES.iter().map(|(name, version, hash)| format!("{name} {version} {hash}\n")).collect();
        let recipe = format!("form {FORM}\n{recipe}");
        if fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == recipe) {
            return Ok(Programs { folder });
        }
        let partial = folder.with_file_name("programs.partial");
        workspace::remove_folder(&partial)?;
        eprintln!("programs: packages of Debian {} (15 MB) ...", SUITES.join(", "));
        let apt = Apt::new(partial.join("apt"), SUITES)?;
        let files = partial.join("files");
        let wanted: Vec<String> =
            PACKAGES.iter().map(|(name, version, _)| format!("{name}={version}")).collect();
        apt.download(&wanted, &files)?;
        for entry in fs::read_dir(&files).with_context(|| format!("reading {}", files.display()))? {
            let path = entry?.path();
            check(&path)?;
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("-x").arg(&path).arg(&partial);
            if workspace::exit_code(unpack)? != 0 {
                bail!("{} cannot be unpacked", path.display());
            }
        }
        workspace::remove_folder(&files)?;
        workspace::remove_folder(&partial.join("apt"))?;
        uncompress(&partial.join(TESTS))?;
        // Debian's own tool for alternatives makes this link.
        let library = partial.join("usr/lib/libpsm1/libpsm_infinipath.so.1");
        symlink("libpsm_infinipath.so.1.16", library).context("linking a library of libfabric")?;
        workspace::write_whole(&partial.join(STAMP), &recipe)?;
        workspace::remove_folder(&folder)?;
        fs::rename(&partial, &folder).context("putting the programs in their place")?;
        Ok(Programs { folder })
    }

    /// A program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("usr/bin").join(name)
    }

    /// Where their libraries are, but those of RDMA: a list for `LD_LIBRARY_PATH`.
    pub fn libraries(&self) -> OsString {
        // The last is Debian's alternative for a library of libfabric.
        let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/libpsm1"];
        let all: Vec<OsString> =
            folders.iter().map(|folder| self.folder.join(folder).into_os_string()).collect();
        all.join(OsStr::new(":"))
    }

    /// Gives a command the packages' Python: the machine's own may be of another version.
    pub fn python(&self, command: &mut Command) {
        command.env("PYTHONHOME", self.folder.join("usr"));
        command.env("PYTHONPATH", self.folder.join("usr/lib/python3/dist-packages"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
    }

    /// The Python program.
    pub fn python_program(&self) -> PathBuf {
        self.program("python3.11")
    }

    /// The folder of the tests of pyverbs.
    pub fn pyverbs_tests(&self) -> PathBuf {
        self.folder.join(TESTS)
    }

    /// Gives a command the packages' OpenMPI, which looks for its parts where Debian installs them.
    pub fn openmpi(&self, command: &mut Command) {
        let usr = self.folder.join("usr");
        command.env("OPAL_PREFIX", &usr).env("PMIX_INSTALL_PREFIX", &usr);
        // There is no compression of messages between the launcher and its processes.
        command.env("PMIX_MCA_pcompress_base_silence_warning", "1");
        // In a container all is root's.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
}

/// Where Debian puts the tests of pyverbs.
const TESTS: &str = "usr/share/doc/rdma-core/tests";

/// Debian compresses the larger files of documentation, of which the tests are a part.
fn uncompress(folder: &Path) -> Result<()> {
    let mut gzip = Command::new("gzip");
    gzip.arg("-d");
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            gzip.arg(path);
        }
    }
    match workspace::exit_code(gzip)? {
        0 => Ok(()),
        code => bail!("gzip -d of {} ended with {code}", folder.display()),
    }
}

/// Refuses a package whose hash is another one.
fn check(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (package, _) = name.split_once('_').with_context(|| format!("{name} is no name of a package"))?;
    let known = PACKAGES.iter().find(|(known, ..)| *known == package);
    let (_, version, wanted) = known.with_context(|| format!("{name} was not asked for"))?;
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != *wanted {
        bail!("{package} {version}: SHA-256 is {found}, expected {wanted}; if Debian has a new version, put both into xtask/src/peers/programs.rs");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_another_hash_is_refused() {
        let folder = std::env::temp_dir().join(format!("ferrowire-programs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("perftest_4.5+0.17-1_amd64.deb");
        fs::write(&file, "something else").unwrap();
        let refused = check(&file).unwrap_err().to_string();
        assert!(refused.contains("SHA-256 is") && refused.contains("d5bb8f96"), "{refused}");
        let other = folder.join("other_1_amd64.deb");
        fs::write(&other, "").unwrap();
        assert!(check(&other).unwrap_err().to_string().contains("was not asked for"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
