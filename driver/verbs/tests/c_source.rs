// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C program that measures the headers, written from the Rust declarations.
//!
//! It prints facts. Its static assertions compare each member's type with the one that Rust declares, and it
//! declares each function again, which a compiler refuses if the types differ.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use ferrowire_verbs::abi::layout::Layout;
use ferrowire_verbs::abi::Table;

use crate::facts::{member, name, TABLES};

/// C names of Rust's types.
pub struct Names(HashMap<&'static str, String>);

/// A structure's C type.
fn spelled(layout: &Layout) -> String {
    let keyword = if layout.union { "union" } else { "struct" };
    match layout.c {
        None => format!("{keyword} {}", layout.name),
        Some(c) => match c.split_once('.') {
            Some((outer, path)) if outer.contains(' ') => format!("__typeof__((({outer} *)0)->{path})"),
            Some((outer, path)) => format!("__typeof__(((struct {outer} *)0)->{path})"),
            None => c.to_string(),
        },
    }
}

impl Names {
    /// Those of the headers.
    pub fn new() -> Self {
        let mut names = Self::basic();
        for (_, table) in TABLES {
            for layout in table.layouts.iter().copied().flatten() {
                names.insert(layout.name, spelled(layout));
            }
            for opaque in table.opaques.iter().copied().flatten() {
                names.insert(opaque.name, opaque.c.map_or(format!("struct {}", opaque.name), str::to_string));
            }
            for found in table.enumerations.iter().copied().flatten() {
                names.insert(found.name, format!("enum {}", found.name));
            }
        }
        Self(names)
    }

    /// Names of types that are defined beside these, by the names in Rust.
    pub fn own(types: impl Iterator<Item = (&'static str, String)>) -> Self {
        let mut names = Self::basic();
        names.extend(types);
        Self(names)
    }

    /// Types of the C language.
    fn basic() -> HashMap<&'static str, String> {
        let names = [
            ("u8", "uint8_t"),
            ("u16", "uint16_t"),
            ("u32", "uint32_t"),
            ("u64", "uint64_t"),
            ("i64", "int64_t"),
            ("usize", "size_t"),
            ("ssize_t", "ssize_t"),
            ("socklen_t", "socklen_t"),
            ("off_t", "off_t"),
            ("nfds_t", "nfds_t"),
            ("be16", "__be16"),
            ("be32", "__be32"),
            ("be64", "__be64"),
            ("aligned_u64", "__aligned_u64"),
            ("c_int", "int"),
            ("c_uint", "unsigned int"),
            ("c_char", "char"),
            ("c_void", "void"),
            ("c_long", "long"),
        ];
        names.into_iter().map(|(rust, c)| (rust, c.to_string())).collect()
    }

    /// The C type of a Rust type that is given as text.
    pub fn c(&self, rust: &str) -> String {
        let mut words = words(rust);
        words.reverse();
        let c = self.parse(&mut words);
        assert!(words.is_empty(), "{rust}: {words:?} is left over");
        c
    }

    /// Takes a type from the end of a reversed list of words.
    fn parse(&self, words: &mut Vec<&str>) -> String {
        let mut next = || words.pop().expect("a type ends early");
        match next() {
            "*" => {
                let qualifier = if next() == "const" { " const *" } else { " *" };
                self.parse(words) + qualifier
            }
            "[" => {
                let element = self.parse(words);
                let (semicolon, count, end) = (words.pop(), words.pop(), words.pop());
                assert_eq!((semicolon, end), (Some(";"), Some("]")));
                format!("__typeof__({element}[{}])", count.unwrap_or_default())
            }
            "Option" => {
                for expected in ["<", "unsafe", "extern", "\"C\"", "fn", "("] {
                    assert_eq!(next(), expected);
                }
                let mut parameters = Vec::new();
                while *words.last().expect("a function ends early") != ")" {
                    if words.len() > 1 && words[words.len() - 2] == ":" {
                        words.truncate(words.len() - 2);
                    }
                    parameters.push(self.parse(words));
                    take(words, ",");
                }
                words.pop();
                let result = if take(words, "->") { self.parse(words) } else { "void".into() };
                take(words, ",");
                assert!(take(words, ">"));
                format!("__typeof__({result} (*)({}))", list(&parameters))
            }
            named => self.0.get(named).unwrap_or_else(|| panic!("{named} has no name in C")).clone(),
        }
    }
}

/// Takes a word from the end of a reversed list if it is the expected one.
fn take(words: &mut Vec<&str>, expected: &str) -> bool {
    let found = words.last() == Some(&expected);
    if found {
        words.pop();
    }
    found
}

/// Parameters of a C function.
pub fn list(parameters: &[String]) -> String {
    if parameters.is_empty() {
        "void".into()
    } else {
        parameters.join(", ")
    }
}

/// A Rust type's words and signs.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let part = |c: char| c.is_alphanumeric() || "_#".contains(c);
        let length = if first == '"' {
            2 + rest[1..].find('"').expect("a string ends")
        } else if part(first) {
            rest.find(|c| !part(c)).unwrap_or(rest.len())
        } else if rest.starts_with("->") {
            2
        } else {
            1
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

/// Lines that only some releases have.
fn guarded(text: &mut String, since: u32, line: &str) {
    if since == 0 {
        writeln!(text, "{line}").unwrap();
    } else {
        writeln!(text, "#if RELEASE >= {since}\n{line}\n#endif").unwrap();
    }
}

/// The function that prints a table's facts.
fn function(text: &mut String, names: &Names, called: &str, table: &Table) {
    writeln!(text, "\nstatic void {called}(void)\n{{").unwrap();
    for layout in table.layouts.iter().copied().flatten() {
        let name = name(layout);
        let c = match layout.inside {
            Some((outer, _)) => names.c(outer),
            None => spelled(layout),
        };
        if layout.inside.is_none() {
            guarded(text, layout.since, &format!("\tSTRUCT(\"{name}\", {c});"));
        }
        for field in layout.fields.iter().filter(|field| !field.hidden) {
            let member = member(field);
            let ty = names.c(field.ty);
            let line = format!("\tFIELD(\"{name}.{member}\", {c}, {member}, {ty});");
            guarded(text, layout.since.max(field.since), &line);
        }
    }
    for found in table.enumerations.iter().copied().flatten() {
        guarded(text, found.since, &format!("\tENUM({0}, enum {0});", found.name));
    }
    for constant in table.constants.iter().copied().flatten() {
        let kind = if constant.address { "ADDRESS" } else { "CONST" };
        guarded(text, constant.since, &format!("\t{kind}({});", constant.name));
    }
    for function in table.functions {
        let mut parameters: Vec<String> = function.parameters.iter().map(|ty| names.c(ty)).collect();
        if function.variadic {
            // Rust declares the first of the further arguments.
            *parameters.last_mut().unwrap() = "...".into();
        }
        let result = if function.result.is_empty() { "void".into() } else { names.c(function.result) };
        let line = format!("\tFUNCTION({}, {result}, {});", function.name, list(&parameters));
        guarded(text, function.since, &line);
    }
    writeln!(text, "}}").unwrap();
}

/// The whole program.
fn source() -> String {
    let names = Names::new();
    let mut text = String::from(
        r#"// SPDX-License-Identifier: MIT OR Apache-2.0
// Written from the Rust declarations by tests/c_source.rs; see measure.sh.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <infiniband/opcode.h>
#include <infiniband/sa.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#define SAME(a, b, what) _Static_assert(__builtin_types_compatible_p(__typeof__(a), __typeof__(b)), what)
#define AT(type, member) (((__typeof__(type) *)0)->member)

#define STRUCT(name, ...) printf("struct %s %zu %zu\n", name, sizeof(__VA_ARGS__), _Alignof(__VA_ARGS__))
#define FIELD(name, type, member, ...) do { \
	SAME(AT(type, member), __VA_ARGS__, name); \
	printf("%s %zu %zu\n", name, (size_t)&AT(type, member), sizeof(AT(type, member))); \
} while (0)
#define ENUM(name, ...) \
	printf("enum %s %zu %s\n", #name, sizeof(__VA_ARGS__), (__VA_ARGS__)-1 < 0 ? "signed" : "unsigned")
#define CONST(name) do { \
	if ((name) < 0) \
		printf("const %s %lld\n", #name, (long long)(name)); \
	else \
		printf("const %s %llu\n", #name, (unsigned long long)(name)); \
} while (0)
#define ADDRESS(name) printf("const %s %llu\n", #name, (unsigned long long)(uintptr_t)(name))
#define FUNCTION(name, result, ...) do { \
	extern result (name)(__VA_ARGS__); \
	printf("function %s\n", #name); \
} while (0)
"#,
    );
    for (called, table) in TABLES {
        function(&mut text, &names, called, table);
    }
    text += r#"
int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "verbs"))
		verbs();
	else if (argc == 2 && !strcmp(argv[1], "cma"))
		cma();
	else
		return 1;
	return 0;
}
"#;
    text
}

#[test]
fn the_c_program_is_the_one_that_the_declarations_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/layout.c");
    let text = source();
    if std::env::var_os("FERROWIRE_ABI_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == text, "abi/layout.c differs from the declarations: run abi/measure.sh");
}
