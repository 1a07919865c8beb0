// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which card a command takes: `--config` and `--set`, the same for every command.
//!
//! Inside of the simulator a card's configuration is named by text, as in `generic-8b --set qps=64`: it resolves to the values, and is what the command line that
//! repeats a case has behind `--config`.

use anyhow::Result;
use clap::Args;
use ferrowire_hdl::choice::choose;
use ferrowire_hdl::config::{RnicConfig, BUILT_IN};

/// Between the parts of a name.
const SET: &str = " --set ";

/// Values over a configuration.
#[derive(Args, Debug, Default, Clone)]
pub struct SetArgs {
    /// Give a field of the configuration another value; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
}

impl SetArgs {
    /// The name of a configuration with these values.
    pub fn over(&self, config: &str) -> String {
        self.set.iter().fold(config.to_string(), |name, set| name + SET + set)
    }

    /// The names of all that a list names, where `all` is each built-in one.
    ///
    /// # Errors
    /// One of them does not resolve: no such configuration, file or field.
    pub fn over_all(&self, configs: &[String]) -> Result<Vec<String>> {
        let named = configs.iter().flat_map(|name| match &name[..] {
            "all" => BUILT_IN.iter().map(|(name, _)| *name).collect(),
            name => vec![name],
        });
        let names: Vec<String> = named.map(|name| self.over(name)).collect();
        for name in &names {
            resolve(name)?;
        }
        Ok(names)
    }
}

/// The values of a named configuration: a built-in one's name or the path of a TOML file, and what is set over it.
///
/// # Errors
/// No such configuration, a file that cannot be read, no such field, a value out of range.
pub fn resolve(name: &str) -> Result<RnicConfig> {
    let mut parts = name.split(SET);
    let base = parts.next().unwrap_or_default();
    let set: Vec<String> = parts.map(String::from).collect();
    Ok(choose(base, &set)?.values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_the_whole_choice() {
        let sets = SetArgs { set: vec!["qps=64".into(), "keys=128".into()] };
        let name = sets.over("generic-8b");
        assert_eq!(name, "generic-8b --set qps=64 --set keys=128");
        let plain = RnicConfig::named("generic-8b").unwrap();
        assert_eq!(resolve(&name).unwrap(), RnicConfig { qps: 64, keys: 128, ..plain.clone() });
        assert_eq!(resolve("generic-8b").unwrap(), plain);
        let all = sets.over_all(&["all".into(), "generic-8b".into()]).unwrap();
        assert_eq!(all.len(), BUILT_IN.len() + 1);
    }

    #[test]
    fn a_file_is_a_configuration_and_errors_say_what_there_is() {
        let folder = std::env::temp_dir().join(format!("ferrowire-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (_, text) = BUILT_IN.iter().find(|(name, _)| *name == "generic-64b").unwrap();
        let file = folder.join("mine.toml");
        std::fs::write(&file, text).unwrap();
        let name = SetArgs { set: vec!["cqs=8".into()] }.over(file.to_str().unwrap());
        assert_eq!(resolve(&name).unwrap().cqs, 8);
        std::fs::remove_dir_all(&folder).unwrap();
        let said = |name: &str| resolve(name).unwrap_err().to_string();
        assert!(said(&name).starts_with("reading "), "{}", said(&name));
        assert!(said("generic-9b").contains("generic-64b, generic-8b"));
        assert!(said("generic-8b --set qsp=1").contains("no such field; there are ahs"));
    }
}
