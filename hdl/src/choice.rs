// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which card: a built-in configuration or a file, and single values set over it.

use std::path::{Path, PathBuf};

use crate::config::{ConfigError, RnicConfig, BUILT_IN};

/// Why there is no such card.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// The configuration's name, or a value in it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A configuration file's text.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ConfigError,
    },
    /// A configuration file that cannot be read.
    #[error("reading {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// `--set` without an equals sign.
    #[error("--set {0}: must be FIELD=VALUE, as in --set qps=64")]
    NotAnAssignment(String),
    /// `--set` of a field that does not exist.
    #[error("--set {field}: no such field; there are {fields}")]
    UnknownField {
        /// As given.
        field: String,
        /// What there is.
        fields: String,
    },
    /// `--set` of something that is no value of the field.
    #[error("{field} = {value}: must be {allowed}")]
    NotAValue {
        /// The field.
        field: String,
        /// As given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// `--set` of one field twice.
    #[error("--set {0}: given twice")]
    Twice(String),
}

/// A configuration and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The built-in configuration's name, or the file's without `.toml`.
    pub name: String,
    /// What was set over it, as `field=value`, by name.
    pub set: Vec<String>,
    /// The values.
    pub values: RnicConfig,
}

/// Takes a built-in configuration's name or the path of a TOML file, and sets fields over it.
///
/// What contains a slash or ends in `.toml` is a path, and so is the name of a file that is no built-in configuration's. Values are checked after all of `set` is applied, so that
/// fields that bound each other can be set together. Numbers may have underscores, as in TOML; what is yes or no is true or false.
///
/// # Errors
/// An unknown name, a file that cannot be read or parsed, an unknown field, a value out of range.
pub fn choose(config: &str, set: &[String]) -> Result<Choice, ChoiceError> {
    let built_in = || BUILT_IN.iter().any(|(name, _)| *name == config);
    let is_path = config.contains('/') || config.ends_with(".toml");
    let (name, base) = if is_path || !built_in() && Path::new(config).is_file() {
        let path = Path::new(config);
        let text =
            std::fs::read_to_string(path).map_err(|source| ChoiceError::Io { path: path.into(), source })?;
        let values =
            RnicConfig::from_toml(&text).map_err(|source| ChoiceError::File { path: path.into(), source })?;
        (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), values)
    } else {
        (config.to_string(), RnicConfig::named(config)?)
    };
    let mut table = fields(&base);
    let mut changed: Vec<String> = Vec::new();
    for assignment in set {
        let (field, value) =
            assignment.split_once('=').ok_or_else(|| ChoiceError::NotAnAssignment(assignment.clone()))?;
        let (field, value) = (field.trim(), value.trim());
        if !table.contains_key(field) {
            let fields: Vec<&str> = table.keys().map(String::as_str).collect();
            return Err(ChoiceError::UnknownField { field: field.into(), fields: fields.join(", ") });
        }
        if changed.iter().any(|c| c == field) {
            return Err(ChoiceError::Twice(field.into()));
        }
        let parsed = match table[field].is_bool() {
            true => value.parse().ok().map(toml::Value::Boolean),
            false => value.replace('_', "").parse::<u32>().ok().map(toml::Value::from),
        };
        let parsed = parsed.ok_or_else(|| ChoiceError::NotAValue {
            field: field.into(),
            value: value.into(),
            allowed: allowed(&base, field),
        })?;
        table.insert(field.into(), parsed);
        changed.push(field.into());
    }
    let values = from_fields(table)?;
    values.validate()?;
    let table = fields(&values);
    let set = table.iter().filter(|(field, _)| changed.contains(field)).map(|(f, v)| format!("{f}={v}"));
    Ok(Choice { name, set: set.collect(), values })
}

/// The built-in configurations.
///
/// # Errors
/// None, unless one of them is broken.
pub fn built_in() -> Result<Vec<Choice>, ChoiceError> {
    BUILT_IN.iter().map(|(name, _)| choose(name, &[])).collect()
}

/// The fields by name.
pub fn fields(values: &RnicConfig) -> toml::Table {
    toml::Table::try_from(values).expect("a configuration is a table of numbers")
}

fn from_fields(table: toml::Table) -> Result<RnicConfig, ChoiceError> {
    table.try_into().map_err(|e: toml::de::Error| ConfigError::Parse(e.message().to_string()).into())
}

/// The range of a field, in words: of a number what the configuration says of zero, which none may be.
pub fn allowed(base: &RnicConfig, field: &str) -> String {
    let mut table = fields(base);
    if table[field].is_bool() {
        return "true or false".into();
    }
    table.insert(field.into(), 0u32.into());
    match from_fields(table).map(|values| values.validate()) {
        Ok(Err(ConfigError::Range { field: at, allowed, .. })) if at == field => allowed,
        _ => "a whole number".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(config: &str, set: &[&str]) -> String {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        choose(config, &set).unwrap_err().to_string()
    }

    #[test]
    fn values_are_set_over_a_built_in_configuration() {
        let set = ["qps=64".to_string(), "beat_bytes = 1_6".to_string()];
        let choice = choose("generic-8b", &set).unwrap();
        assert_eq!((choice.values.qps, choice.values.beat_bytes), (64, 16));
        assert_eq!(choice.set, ["beat_bytes=16", "qps=64"]);
    }

    #[test]
    fn what_is_yes_or_no_is_set_by_these_words() {
        let set = ["neighbour_responder=false".to_string()];
        let choice = choose("generic-8b", &set).unwrap();
        assert!(!choice.values.neighbour_responder);
        assert_eq!(choice.set, ["neighbour_responder=false"]);
        let said = message("generic-8b", &["neighbour_responder=0"]);
        assert_eq!(said, "neighbour_responder = 0: must be true or false");
    }

    #[test]
    fn fields_that_bound_each_other_are_checked_together() {
        let set = ["outstanding_per_qp=512".to_string(), "outstanding=512".to_string()];
        assert_eq!(choose("generic-8b", &set).unwrap().values.outstanding_per_qp, 512);
    }

    #[test]
    fn errors_name_the_field_and_what_is_allowed() {
        assert_eq!(message("generic-8b", &["qps=100"]), "qps = 100: must be a power of two from 4 to 16384");
        assert_eq!(
            message("generic-8b", &["qps=many"]),
            "qps = many: must be a power of two from 4 to 16384"
        );
        assert_eq!(message("generic-8b", &["qps"]), "--set qps: must be FIELD=VALUE, as in --set qps=64");
        assert_eq!(message("generic-8b", &["qps=8", "qps=8"]), "--set qps: given twice");
        assert!(message("generic-8b", &["qsp=8"])
            .starts_with("--set qsp: no such field; there are ahs, atomics, axi, axi_burst_beats, "));
        assert!(message("generic-9b", &[]).contains("generic-64b, generic-8b"));
        assert!(message("none/such.toml", &[]).starts_with("reading none/such.toml: "));
    }
}
