// SPDX-License-Identifier: MIT OR Apache-2.0
//! Macros that declare C types once, and the tables that a test compares with the C headers.
//!
//! | macro | declares | table |
//! |---|---|---|
//! | `layout!` | structures and unions | `LAYOUTS` |
//! | `opaque!` | structures without members | `OPAQUES` |
//! | `constants!` | enumerations and macros | `ENUMERATIONS`, `CONSTANTS` |
//! | `functions!` | types of exported functions | `FUNCTIONS` |
//!
//! A mark in brackets precedes an item:
//!
//! | mark | meaning |
//! |---|---|
//! | `[since 56]` | rdma-core 44 lacks the item, rdma-core 56 has it |
//! | `[hidden]` | C has no member of this name |
//! | `[in ibv_wc.imm]` | the union is an anonymous member of `ibv_wc`; Rust reaches it as `imm` |
//! | `[variadic]` | the last parameter is the first of the C function's further arguments |
//!
//! `as "..."` gives a type's name in C if it is not `struct NAME` or `union NAME`. A name with dots is
//! that of a nested type: `ibv_send_wr.wr.rdma` is the type of that member of `struct ibv_send_wr`.

/// A structure or union.
#[derive(Debug)]
pub struct Layout {
    /// Name in Rust.
    pub name: &'static str,
    /// Whether it is a union.
    pub union: bool,
    /// Name in C, if it does not follow from the name in Rust.
    pub c: Option<&'static str>,
    /// Bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// First release of rdma-core that has it; 0 for all that are known.
    pub since: u32,
    /// The structure of which it is an anonymous member, and its offset there.
    pub inside: Option<(&'static str, usize)>,
    /// Members in their order.
    pub fields: &'static [Field],
}

/// A member of a structure or union.
#[derive(Debug)]
pub struct Field {
    /// Name in Rust; `r#type` for `type`.
    pub name: &'static str,
    /// Rust type, as text.
    pub ty: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// First release of rdma-core that has it; 0 for all that are known.
    pub since: u32,
    /// Whether C has no member of this name.
    pub hidden: bool,
}

/// A structure that programs know by its address only.
#[derive(Debug)]
pub struct Opaque {
    /// Name in Rust.
    pub name: &'static str,
    /// Name in C, if it is not `struct NAME`.
    pub c: Option<&'static str>,
}

/// An enumeration with a name.
#[derive(Debug)]
pub struct Enumeration {
    /// Its name, in C after `enum`.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Whether C stores it in a signed integer.
    pub signed: bool,
    /// First release of rdma-core that has it; 0 for all that are known.
    pub since: u32,
}

/// An enumeration's constant or a macro's value.
#[derive(Debug)]
pub struct Constant {
    /// Its name in both languages.
    pub name: &'static str,
    /// Its value.
    pub value: i128,
    /// First release of rdma-core that has it; 0 for all that are known.
    pub since: u32,
    /// Whether C gives it the type of a pointer.
    pub address: bool,
}

/// A function that a library exports.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Rust types of its parameters, as text.
    pub parameters: &'static [&'static str],
    /// Rust type of its result, as text; empty for none.
    pub result: &'static str,
    /// First release of rdma-core whose headers declare it; 0 for all that are known.
    pub since: u32,
    /// Whether the last parameter is the first of the C function's further arguments.
    pub variadic: bool,
}

/// The release in a mark.
macro_rules! since {
    ($(since $release:literal)?) => { 0 $(+ $release)? };
    ($($other:tt)*) => {
        0
    };
}

/// Whether a mark is the one that is asked for.
macro_rules! marked {
    (hidden: hidden) => {
        true
    };
    (variadic: variadic) => {
        true
    };
    ($asked:ident: $($other:tt)*) => {
        false
    };
}

/// The structure that a mark names, and the member's offset in it.
macro_rules! inside {
    (in $outer:ident . $member:ident) => {
        Some((stringify!($outer), core::mem::offset_of!($outer, $member)))
    };
    ($($other:tt)*) => {
        None
    };
}

/// An optional literal.
macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Whether the keyword is `union`.
macro_rules! is_union {
    (union) => {
        true
    };
    (struct) => {
        false
    };
}

macro_rules! layout {
    ($(
        $(#[doc = $doc:literal])+
        $([$($mark:tt)*])?
        $kind:ident $name:ident $(as $c:literal)? {
            $( $([$($field_mark:tt)*])? $field:ident: $ty:ty ),* $(,)?
        }
    )*) => {
        $(
            $(#[doc = $doc])+
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub $kind $name {
                $( pub $field: $ty, )*
            }

            impl $name {
                /// The value whose bytes are all zero.
                pub const fn zeroed() -> Self {
                    // SAFETY: the members are integers, raw pointers, optional functions and aggregates of
                    // these. Zero is a value of each.
                    unsafe { core::mem::zeroed() }
                }
            }
        )*

        /// Structures and unions of this module.
        pub(super) static LAYOUTS: &[$crate::abi::layout::Layout] = &[$(
            $crate::abi::layout::Layout {
                name: stringify!($name),
                union: is_union!($kind),
                c: optional!($($c)?),
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                since: since!($($($mark)*)?),
                inside: inside!($($($mark)*)?),
                fields: &[$(
                    $crate::abi::layout::Field {
                        name: stringify!($field),
                        ty: stringify!($ty),
                        offset: core::mem::offset_of!($name, $field),
                        size: size_of::<$ty>(),
                        since: since!($($($field_mark)*)?),
                        hidden: marked!(hidden: $($($field_mark)*)?),
                    },
                )*],
            },
        )*];
    };
}

macro_rules! opaque {
    ($( $(#[doc = $doc:literal])+ struct $name:ident $(as $c:literal)?; )*) => {
        $(
            $(#[doc = $doc])+
            #[repr(C)]
            pub struct $name {
                private: [u8; 0],
            }
        )*

        /// Structures of this module that programs know by their address only.
        pub(super) static OPAQUES: &[$crate::abi::layout::Opaque] = &[$(
            $crate::abi::layout::Opaque { name: stringify!($name), c: optional!($($c)?) },
        )*];
    };
}

macro_rules! constants {
    (
        $(
            $(#[doc = $doc:literal])*
            $([$($mark:tt)*])?
            enum $name:ident: $ty:ident { $( $([$($one_mark:tt)*])? $one:ident = $value:expr ),* $(,)? }
        )*
        $( values $many_ty:ident { $( $([$($many_mark:tt)*])? $many:ident = $many_value:expr ),* $(,)? } )*
        $( addresses { $( $address:ident = $address_value:expr ),* $(,)? } )?
    ) => {
        $(
            $(#[doc = $doc])*
            pub type $name = core::ffi::$ty;
            $( pub const $one: $name = $value; )*
        )*
        $( $( pub const $many: $many_ty = $many_value; )* )*
        $( $( pub const $address: usize = $address_value; )* )?

        /// Enumerations of this module that have a name.
        pub(super) static ENUMERATIONS: &[$crate::abi::layout::Enumeration] = &[$(
            $crate::abi::layout::Enumeration {
                name: stringify!($name),
                size: size_of::<$name>(),
                signed: <$name>::MIN != 0,
                since: since!($($($mark)*)?),
            },
        )*];

        /// Constants of this module.
        pub(super) static CONSTANTS: &[$crate::abi::layout::Constant] = &[
            $( $(
                $crate::abi::layout::Constant {
                    name: stringify!($one),
                    value: $one as i128,
                    since: since!($($($one_mark)*)?),
                    address: false,
                },
            )* )*
            $( $(
                $crate::abi::layout::Constant {
                    name: stringify!($many),
                    value: $many as i128,
                    since: since!($($($many_mark)*)?),
                    address: false,
                },
            )* )*
            $( $(
                $crate::abi::layout::Constant {
                    name: stringify!($address),
                    value: $address as i128,
                    since: 0,
                    address: true,
                },
            )* )?
        ];
    };
}

macro_rules! functions {
    ($(
        $([$($mark:tt)*])?
        fn $name:ident($( $parameter:ident: $ty:ty ),* $(,)?) $(-> $result:ty)?;
    )*) => {
        $(
            #[doc = concat!("The type of `", stringify!($name), "`.")]
            pub type $name = unsafe extern "C" fn($( $parameter: $ty ),*) $(-> $result)?;
        )*

        /// Functions of this module.
        pub(super) static FUNCTIONS: &[$crate::abi::layout::Function] = &[$(
            $crate::abi::layout::Function {
                name: stringify!($name),
                parameters: &[$( stringify!($ty) ),*],
                result: concat!($( stringify!($result) )?),
                since: since!($($($mark)*)?),
                variadic: marked!(variadic: $($($mark)*)?),
            },
        )*];
    };
}

pub(crate) use {constants, functions, inside, is_union, layout, marked, opaque, optional, since};
