// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles: structs of signals that travel as one, and interfaces: what may cross a module's boundary.

use crate::design::{with, Loc};
use crate::netlist::{Node, Op, ScopeId};
use crate::sig::{bits, cat, Operand, Sig};
use std::panic::Location;

/// A struct of signals that all flow the same way. Derive it with `#[derive(Bundle)]`.
pub trait Bundle: Clone {
    /// The same bundle with each signal replaced; `f` gets the field's path (`ip_src`) and the signal.
    fn map(&self, path: &str, f: &mut dyn FnMut(&str, &Sig) -> Sig) -> Self;

    /// All signals with their paths, in the order of declaration.
    fn fields(&self) -> Vec<(String, Sig)> {
        let mut fields = Vec::new();
        self.map("", &mut |path, sig| {
            fields.push((path.to_string(), *sig));
            *sig
        });
        fields
    }

    /// Bits in all fields together.
    fn total_width(&self) -> u32 {
        self.fields().iter().map(|(_, s)| s.width()).sum()
    }

    /// The shape alone.
    fn shape(&self) -> Self {
        self.map("", &mut |_, sig| bits(sig.width()))
    }

    /// All fields as one signal, the first declared lowest.
    #[track_caller]
    fn pack(&self) -> Sig {
        let fields: Vec<Sig> = self.fields().into_iter().map(|(_, s)| s).collect();
        cat(&fields)
    }

    /// A bundle of this shape from one signal, the inverse of [`Bundle::pack`].
    #[track_caller]
    fn unpack(&self, packed: Sig) -> Self {
        let loc = Location::caller();
        let need = self.total_width();
        assert!(packed.width() == need, "{loc}: unpack of {} bits into a bundle of {need}", packed.width());
        let mut at = 0;
        self.map("", &mut |_, sig| {
            let field = packed.slice_at(at, sig.width(), loc);
            at += sig.width();
            field
        })
    }

    /// Every field zero, in this shape.
    #[track_caller]
    fn zeros(&self) -> Self {
        let loc = Location::caller();
        self.map("", &mut |_, sig| 0.operand(sig.width(), loc))
    }

    /// Names each field that has no name yet `name_field`.
    fn named_as(self, name: &str) -> Self {
        with(|d| {
            for (path, sig) in self.fields() {
                if sig.design == d.serial && !sig.is_shape() {
                    d.name(sig.id, &join(name, &path), false);
                }
            }
        });
        self
    }
}

/// Two bundles of one shape, field by field.
pub(crate) fn zip<T: Bundle>(a: &T, b: &T, loc: Loc, mut f: impl FnMut(Sig, Sig) -> Sig) -> T {
    let others = b.fields();
    let mut i = 0;
    let result = a.map("", &mut |path, sig| {
        let Some((other_path, other)) = others.get(i) else {
            panic!("{loc}: bundles of different shapes: one has no field `{path}`")
        };
        // Of single signals `f` tells more.
        assert!(
            other_path == path && (other.width() == sig.width() || path.is_empty()),
            "{loc}: bundles of different shapes: `{path}` of {} bits beside `{other_path}` of {} bits",
            sig.width(),
            other.width()
        );
        i += 1;
        f(*sig, *other)
    });
    assert!(
        i == others.len(),
        "{loc}: bundles of different shapes: one has {} fields more",
        others.len() - i
    );
    result
}

/// `prefix_name`, or either where the other is empty.
pub fn join(prefix: &str, name: &str) -> String {
    match (prefix, name) {
        ("", name) => name.to_string(),
        (prefix, "") => prefix.to_string(),
        (prefix, name) => format!("{prefix}_{name}"),
    }
}

impl Bundle for Sig {
    fn map(&self, path: &str, f: &mut dyn FnMut(&str, &Sig) -> Sig) -> Self {
        f(path, self)
    }
}

/// What can be assigned to a `T`.
pub trait Value<T> {
    /// The value in the target's shape.
    #[doc(hidden)]
    fn value(self, target: &T, loc: Loc) -> T;
}

impl<O: Operand> Value<Sig> for O {
    fn value(self, target: &Sig, loc: Loc) -> Sig {
        self.operand(target.width(), loc)
    }
}

/// What can be an argument or a result of a module: bundles, streams, and structs of these
/// (`#[derive(Interface)]`).
pub trait Interface: Sized {
    /// The same interface seen from the other side of the boundary.
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self;
}

/// One passage of an interface through a module's boundary.
pub struct Crossing {
    pub(crate) from: ScopeId,
    pub(crate) to: ScopeId,
    pub(crate) loc: Loc,
}

impl Crossing {
    /// Takes a signal along.
    pub fn forward(&mut self, path: &str, sig: Sig) -> Sig {
        self.alias(self.from, self.to, path, sig)
    }

    /// Takes back a signal that flows the other way: `target` is a wire on the near side that waits to be driven;
    /// the result is a new one on the far side that drives it.
    pub fn backward(&mut self, path: &str, target: Sig) -> Sig {
        let far = self.on(self.to, |loc| {
            with(|d| {
                let id = d.new_wire(path, target.width(), true, loc);
                d.sig(id)
            })
        });
        let near = self.alias(self.to, self.from, path, far);
        self.on(self.from, |loc| crate::scope::drive_at(target, near, loc));
        far
    }

    fn on<R>(&self, scope: ScopeId, f: impl FnOnce(Loc) -> R) -> R {
        with(|d| {
            d.scopes.push(scope);
            d.blocks.push(vec![crate::design::Block::default()]);
        });
        let result = f(self.loc);
        with(|d| {
            d.scopes.pop();
            d.blocks.pop();
        });
        result
    }

    fn alias(&self, from: ScopeId, to: ScopeId, path: &str, sig: Sig) -> Sig {
        let loc = self.loc;
        let made = with(|d| {
            d.scopes.push(from);
            let id = d.resolve(sig, loc);
            d.scopes.pop();
            let id = id?;
            let inward = d.net.scopes[to as usize].parent == Some(from);
            let child = if inward { to } else { from };
            // A name used twice on one module's boundary gets a number.
            let port = d.port_name(child, path);
            let name =
                if inward { port.clone() } else { join(&d.net.scopes[child as usize].instance, &port) };
            let width = d.width(id);
            let node =
                Node { op: Op::Port(id, port), width, scope: to, loc, name: Some(name), weak: !inward };
            let id = d.push(node);
            Ok::<_, String>(d.sig(id))
        });
        match made {
            Ok(sig) => sig,
            Err(message) => panic!("{message}"),
        }
    }
}

impl Interface for Sig {
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
        crossing.forward(path, self)
    }
}

impl Interface for () {
    fn cross(self, _crossing: &mut Crossing, _path: &str) -> Self {}
}

impl<T: Bundle> Bundle for Vec<T> {
    fn map(&self, path: &str, f: &mut dyn FnMut(&str, &Sig) -> Sig) -> Self {
        self.iter().enumerate().map(|(i, x)| x.map(&join(path, &i.to_string()), f)).collect()
    }
}

impl<T: Interface> Interface for Vec<T> {
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
        self.into_iter().enumerate().map(|(i, x)| x.cross(crossing, &join(path, &i.to_string()))).collect()
    }
}

impl<T: Bundle, const N: usize> Bundle for [T; N] {
    fn map(&self, path: &str, f: &mut dyn FnMut(&str, &Sig) -> Sig) -> Self {
        std::array::from_fn(|i| self[i].map(&join(path, &i.to_string()), f))
    }
}

impl<T: Interface, const N: usize> Interface for [T; N] {
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
        let mut i = 0;
        self.map(|x| {
            i += 1;
            x.cross(crossing, &join(path, &(i - 1).to_string()))
        })
    }
}

impl<T: Interface> Interface for Option<T> {
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
        self.map(|x| x.cross(crossing, path))
    }
}

macro_rules! tuples {
    ($($($t:ident $i:tt)+;)*) => {$(
        impl<$($t: Bundle),+> Bundle for ($($t,)+) {
            fn map(&self, path: &str, f: &mut dyn FnMut(&str, &Sig) -> Sig) -> Self {
                ($(self.$i.map(&join(path, stringify!($i)), f),)+)
            }
        }
        impl<$($t: Interface),+> Interface for ($($t,)+) {
            fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
                // Results carry their names in the path, one a part, separated by commas.
                let names: Vec<&str> = path.split(',').collect();
                ($(self.$i.cross(crossing, &match names.len() {
                    1 => join(path, stringify!($i)),
                    _ => names.get($i).map_or_else(|| format!("out{}", $i), |n| n.to_string()),
                }),)+)
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}
