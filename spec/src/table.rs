// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a table is made of, and the macros that declare one.

use core::fmt;

/// Who may change a field, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only: written by the card, or constant.
    RO,
    /// Read and write; in headers and queue entries, an ordinary field.
    RW,
    /// Write only: a read gives zero.
    WO,
    /// Writing a one clears the bit.
    W1C,
    /// Reserved: sent as zero, ignored when received, kept by `parse` and `emit`.
    RSVD,
}

impl Access {
    /// The short name used in the register pages.
    pub const fn name(self) -> &'static str {
        match self {
            Access::RO => "RO",
            Access::RW => "RW",
            Access::WO => "WO",
            Access::W1C => "W1C",
            Access::RSVD => "RSVD",
        }
    }
}

/// How bits are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Bit 0 is the most significant bit of byte 0, as the standards draw it; values are big-endian.
    Network,
    /// Bit 0 is the least significant bit of byte 0; values are little-endian.
    Little,
}

/// A run of bits with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name, in snake case for layouts; unique in its layout or register.
    pub name: &'static str,
    /// First bit, counted in the layout's [`Order`].
    pub offset: u16,
    /// Bits, 1 to 128.
    pub width: u16,
    /// Who may change it.
    pub access: Access,
    /// Value after reset, or the value that a sender puts there unless it has a reason.
    pub reset: u64,
    /// Where the rule comes from.
    pub clause: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

impl Field {
    /// First bit behind the field.
    pub const fn end(&self) -> usize {
        self.offset as usize + self.width as usize
    }

    /// Largest value that fits, which is also the mask before shifting.
    pub const fn max(&self) -> u128 {
        u128::MAX >> (128 - self.width as u32)
    }

    /// Position of bit `i` of the value (0 is its least significant) on a bus whose bits 7:0 are byte 0 of the
    /// structure, whatever the order. With [`Order::Little`] this is `offset + i`.
    pub const fn bus_bit(&self, order: Order, i: usize) -> usize {
        assert!(i < self.width as usize, "bit index behind the field");
        match order {
            Order::Little => self.offset as usize + i,
            Order::Network => {
                let drawn = self.end() - 1 - i;
                drawn / 8 * 8 + (7 - drawn % 8)
            }
        }
    }

    /// The 64-bit word of a little-endian structure that holds the whole field.
    ///
    /// # Panics
    /// When the field lies in two words.
    pub const fn word(&self) -> usize {
        assert!(self.offset as usize / 64 == (self.end() - 1) / 64, "a field in two words");
        self.offset as usize / 64
    }

    /// A value at the field's place in its [`word`](Self::word), all other bits zero.
    ///
    /// # Panics
    /// When the field lies in two words, or `value` is wider than the field.
    #[inline]
    pub const fn to_word(&self, value: u64) -> u64 {
        let _ = self.word();
        assert!(value as u128 <= self.max(), "value wider than the field");
        value << (self.offset % 64)
    }

    /// The field's value, from its [`word`](Self::word).
    ///
    /// # Panics
    /// When the field lies in two words.
    #[inline]
    pub const fn of_word(&self, word: u64) -> u64 {
        let _ = self.word();
        word >> (self.offset % 64) & self.max() as u64
    }

    /// Read the field from the bytes of its structure.
    ///
    /// # Panics
    /// When `bytes` ends before the field does; the `parse` functions check the length first.
    pub const fn get(&self, order: Order, bytes: &[u8]) -> u128 {
        let mut value = 0u128;
        let mut done = 0;
        while done < self.width as usize {
            let at = self.offset as usize + done;
            let in_byte = at % 8;
            let left = self.width as usize - done;
            let run = if left < 8 - in_byte { left } else { 8 - in_byte };
            let byte = bytes[at / 8] as u128;
            let mask = (1 << run) - 1;
            match order {
                Order::Network => value = (value << run) | ((byte >> (8 - in_byte - run)) & mask),
                Order::Little => value |= ((byte >> in_byte) & mask) << done,
            }
            done += run;
        }
        value
    }

    /// Write the field into the bytes of its structure; other bits keep their value.
    ///
    /// # Panics
    /// When `bytes` ends before the field does, or `value` is wider than the field.
    pub const fn set(&self, order: Order, bytes: &mut [u8], value: u128) {
        assert!(value <= self.max(), "value wider than the field");
        let mut done = 0;
        while done < self.width as usize {
            let at = self.offset as usize + done;
            let in_byte = at % 8;
            let left = self.width as usize - done;
            let run = if left < 8 - in_byte { left } else { 8 - in_byte };
            let mask = ((1u16 << run) - 1) as u8;
            let (shift, part) = match order {
                Order::Network => (8 - in_byte - run, (value >> (left - run)) as u8),
                Order::Little => (in_byte, (value >> done) as u8),
            };
            bytes[at / 8] = (bytes[at / 8] & !(mask << shift)) | ((part & mask) << shift);
            done += run;
        }
    }
}

/// A wire header, queue entry or command: every bit of it belongs to exactly one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Name, in snake case, unique in the crate.
    pub name: &'static str,
    /// Meaning.
    pub doc: &'static str,
    /// Size.
    pub bytes: usize,
    /// How offsets are counted.
    pub order: Order,
    /// The fields, in the order of their offsets.
    pub fields: &'static [Field],
}

impl Layout {
    /// The field of that name.
    pub const fn field(&self, name: &str) -> Option<&Field> {
        find(self.fields, name)
    }
}

/// A register of BAR 0: 32 bits, or 64 bits read as two words, low word at the lower address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// Name, in snake case, unique in its block.
    pub name: &'static str,
    /// Bytes from the block's base.
    pub offset: u32,
    /// Size: 4 or 8.
    pub bytes: usize,
    /// Its bits, counted as [`Order::Little`]; bits without a field are reserved and read zero.
    pub fields: &'static [Field],
    /// Meaning.
    pub doc: &'static str,
}

impl Register {
    /// The field of that name.
    pub const fn field(&self, name: &str) -> Option<&Field> {
        find(self.fields, name)
    }

    /// Value after reset.
    pub const fn reset(&self) -> u64 {
        let mut value = 0;
        let mut i = 0;
        while i < self.fields.len() {
            value |= self.fields[i].reset << self.fields[i].offset;
            i += 1;
        }
        value
    }
}

/// Registers that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Name, in snake case, unique in the crate.
    pub name: &'static str,
    /// Byte address in BAR 0.
    pub base: u32,
    /// Bytes of address space the block occupies.
    pub bytes: u32,
    /// Its registers, in the order of their offsets.
    pub registers: &'static [Register],
    /// Meaning.
    pub doc: &'static str,
}

impl Block {
    /// The register of that name.
    pub const fn register(&self, name: &str) -> Option<&Register> {
        let mut i = 0;
        while i < self.registers.len() {
            if same(self.registers[i].name, name) {
                return Some(&self.registers[i]);
            }
            i += 1;
        }
        None
    }

    /// Address in BAR 0 of one of the block's registers.
    pub const fn address(&self, register: &Register) -> u32 {
        self.base + register.offset
    }
}

/// One value of a coded field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Name, as C and the register pages spell it.
    pub name: &'static str,
    /// Value on the wire or in memory.
    pub value: u8,
    /// Meaning.
    pub doc: &'static str,
}

/// All values of a coded field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    /// Name, in snake case, unique in the crate.
    pub name: &'static str,
    /// Meaning.
    pub doc: &'static str,
    /// The values.
    pub codes: &'static [Code],
}

/// What can be wrong with the bytes or values given to a `parse`, `emit` or `try_from` of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The buffer ends before the structure does.
    Truncated {
        /// The structure.
        what: &'static str,
        /// Bytes it takes.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A value is too wide for its field.
    OutOfRange {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Bits of the field.
        width: u16,
        /// The value.
        value: u128,
    },
    /// A code has no meaning.
    UnknownCode {
        /// The table, one of [`crate::ALL_CODES`].
        what: &'static str,
        /// The code.
        value: u8,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Truncated { what, need, have } => write!(f, "{what}: takes {need} bytes, {have} given"),
            Error::OutOfRange { what, field, width, value } => {
                write!(f, "{what}.{field}: {value:#x} does not fit in {width} bits")
            }
            Error::UnknownCode { what, value } => write!(f, "{what}: no meaning for code {value:#04x}"),
        }
    }
}

impl core::error::Error for Error {}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that holds the value of a field.
pub trait Bits: Copy + sealed::Sealed {
    /// Bits it can hold.
    const BITS: u16;
    /// The value, zero-extended.
    fn to_bits(self) -> u128;
    /// The low [`Bits::BITS`] bits of `bits`.
    fn from_bits(bits: u128) -> Self;
}

macro_rules! bits {
    ($($t:ident)+) => {$(
        impl sealed::Sealed for $t {}
        impl Bits for $t {
            const BITS: u16 = $t::BITS as u16;
            #[inline]
            fn to_bits(self) -> u128 {
                self as u128
            }
            #[inline]
            fn from_bits(bits: u128) -> Self {
                bits as $t
            }
        }
    )+};
}
bits!(u8 u16 u32 u64 u128);

impl sealed::Sealed for bool {}
impl Bits for bool {
    const BITS: u16 = 1;
    #[inline]
    fn to_bits(self) -> u128 {
        self as u128
    }
    #[inline]
    fn from_bits(bits: u128) -> Self {
        bits & 1 == 1
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    let mut i = 0;
    while i < fields.len() {
        if same(fields[i].name, name) {
            return Some(&fields[i]);
        }
        i += 1;
    }
    None
}

/// The last of a list: how the macros write "this, unless that is given".
pub(crate) const fn last<T: Copy>(list: &[T]) -> T {
    list[list.len() - 1]
}

/// Whether a field of `width` bits has the Rust type that the crate's rule wants.
pub(crate) const fn smallest(bits: u16, width: u16) -> bool {
    match width {
        1 => bits == 1,
        2..=8 => bits == 8,
        9..=16 => bits == 16,
        17..=32 => bits == 32,
        33..=64 => bits == 64,
        _ => bits == 128 && width <= 128,
    }
}

const fn check_fields(fields: &[Field], bits: usize) {
    let mut at = 0;
    let mut i = 0;
    while i < fields.len() {
        let f = &fields[i];
        assert!(f.width >= 1 && f.width <= 128, "a field is 1 to 128 bits wide");
        assert!(f.offset as usize >= at, "fields overlap, or are not in the order of their offsets");
        assert!(f.end() <= bits, "a field lies behind the end");
        assert!(f.reset as u128 <= f.max(), "a reset value does not fit its field");
        let mut j = 0;
        while j < i {
            assert!(!same(fields[j].name, f.name), "two fields have one name");
            j += 1;
        }
        at = f.end();
        i += 1;
    }
}

/// Stops the build when the layout is not sound: fields in order, no overlap, no bit without a field, and no
/// field of a host structure across a 64-bit word unless it is wider than one; the wires of a bus have no words.
pub(crate) const fn checked(layout: Layout, words: bool) -> Layout {
    check_fields(layout.fields, layout.bytes * 8);
    let mut covered = 0;
    let mut i = 0;
    while i < layout.fields.len() {
        let f = &layout.fields[i];
        covered += f.width as usize;
        if words && matches!(layout.order, Order::Little) {
            let inside = f.offset as usize / 64 == (f.end() - 1) / 64;
            assert!(inside || f.width == 128, "a field lies across a 64-bit word");
        }
        i += 1;
    }
    assert!(covered == layout.bytes * 8, "a bit belongs to no field");
    layout
}

/// Stops the build when the block is not sound: registers in order, aligned, without overlap, inside the block.
pub(crate) const fn checked_block(block: Block) -> Block {
    assert!(block.base % 8 == 0, "a block begins at a multiple of 8");
    let mut at = 0;
    let mut i = 0;
    while i < block.registers.len() {
        let r = &block.registers[i];
        assert!(r.bytes == 4 || r.bytes == 8, "a register is 4 or 8 bytes");
        assert!(r.offset as usize % r.bytes == 0, "a register is not aligned");
        assert!(r.offset as usize >= at, "registers overlap, or are not in the order of their offsets");
        check_fields(r.fields, r.bytes * 8);
        at = r.offset as usize + r.bytes;
        i += 1;
    }
    assert!(at <= block.bytes as usize, "a register lies behind the block");
    block
}

/// Puts a value that fits its field into the words of a little-endian structure. With a constant field, a shift and an or a word.
#[inline(always)]
pub(crate) const fn put(words: &mut [u64], field: &Field, value: u128) {
    let (word, shift) = (field.offset as usize / 64, field.offset as u32 % 64);
    let end = shift as usize + field.width as usize;
    let low = value << shift;
    words[word] |= low as u64;
    if end > 64 {
        words[word + 1] |= (low >> 64) as u64;
    }
    if end > 128 {
        words[word + 2] |= (value >> (128 - shift)) as u64;
    }
}

/// A field's value, from the words of a little-endian structure.
#[inline(always)]
pub(crate) const fn take(words: &[u64], field: &Field) -> u128 {
    let (word, shift) = (field.offset as usize / 64, field.offset as u32 % 64);
    let end = shift as usize + field.width as usize;
    let mut value = words[word] as u128;
    if end > 64 {
        value |= (words[word + 1] as u128) << 64;
    }
    value >>= shift;
    if end > 128 {
        value |= (words[word + 2] as u128) << (128 - shift);
    }
    value & field.max()
}

/// What little-endian structures have beside the others: their 64-bit words.
macro_rules! words {
    (Network $($rest:tt)*) => {};
    (Little $Struct:ident, $name:literal; $($CONST:ident $field:ident: $type:ident, $width:literal;)+) => {
        /// 64-bit words of the structure; if its size is no multiple of 8, the rest of the last one is zero.
        pub const WORDS: usize = BYTES.div_ceil(8);

        impl $Struct {
            /// The encoded bytes as little-endian words: what [`to_bytes`](Self::to_bytes) gives, without bytes in between.
            ///
            /// # Errors
            /// `OutOfRange` when a value does not fit its field.
            #[inline(always)]
            pub fn to_words(&self) -> Result<[u64; WORDS], $crate::Error> {
                let mut words = [0; WORDS];
                $(
                    let value = $crate::Bits::to_bits(self.$field);
                    if $width < <$type as $crate::Bits>::BITS && value > $CONST.max() {
                        return Err($crate::Error::OutOfRange {
                            what: $name,
                            field: stringify!($field),
                            width: $width,
                            value,
                        });
                    }
                    $crate::table::put(&mut words, &$CONST, value);
                )+
                Ok(words)
            }

            /// Decode little-endian words: what [`parse`](Self::parse) makes of their bytes.
            #[inline]
            pub fn from_words(words: &[u64; WORDS]) -> Self {
                Self { $($field: $crate::Bits::from_bits($crate::table::take(words, &$CONST)),)+ }
            }
        }
    };
}
pub(crate) use words;

/// Declares a structure once: a `Field` constant a field, `LAYOUT`, `BYTES` and a struct with `parse` and `emit`; little-endian ones also have
/// `WORDS`, `to_words` and `from_words`.
///
/// `FIELD field: type @ first bit, width, access [= reset] [, clause];` with its meaning as the doc comment. `18 bytes wires` is a bus beside
/// its data, and nothing that lies in memory.
macro_rules! layout {
    ($(#[doc = $doc:literal])+ mod $module:ident; $($rest:tt)+) => {
        $(#[doc = $doc])+
        pub mod $module {
            $crate::table::layout! { $(#[doc = $doc])+ $($rest)+ }
        }
    };
    (
        $(#[doc = $doc:literal])+
        struct $Struct:ident, $name:literal, $order:ident, $bytes:literal bytes $($wires:ident)?, $clause:literal;
        $(
            $(#[doc = $fdoc:literal])+
            $CONST:ident $field:ident: $type:ident @ $offset:literal, $width:literal, $access:ident
            $(= $reset:expr)? $(, $fclause:literal)?;
        )+
    ) => {
        /// Size in bytes.
        pub const BYTES: usize = $bytes;

        $(
            #[doc = concat!("Bits ", stringify!($offset), " +: ", stringify!($width), ".")]
            ///
            $(#[doc = $fdoc])+
            pub const $CONST: $crate::Field = $crate::Field {
                name: stringify!($field),
                offset: $offset,
                width: $width,
                access: $crate::Access::$access,
                reset: $crate::table::last(&[0 $(, $reset)?]),
                clause: $crate::table::last(&[$clause $(, $fclause)?]),
                doc: concat!($($fdoc),+),
            };
        )+

        /// The whole structure.
        pub const LAYOUT: $crate::Layout = {
            let wires: &[&str] = &[$(stringify!($wires))?];
            let layout = $crate::Layout {
                name: $name,
                doc: concat!($($doc),+),
                bytes: BYTES,
                order: $crate::Order::$order,
                fields: &[$($CONST),+],
            };
            $crate::table::checked(layout, wires.is_empty())
        };

        const _: () = {
            $(assert!(
                $crate::table::smallest(<$type as $crate::Bits>::BITS, $width),
                concat!(stringify!($field), ": not the smallest type that holds the field")
            );)+
        };

        $(#[doc = $doc])+
        ///
        /// The default holds the fields' reset values: what a sender puts there unless it has a reason.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $Struct {
            $(
                $(#[doc = $fdoc])+
                pub $field: $type,
            )+
        }

        impl Default for $Struct {
            #[inline]
            fn default() -> Self {
                Self { $($field: $crate::Bits::from_bits($CONST.reset as u128),)+ }
            }
        }

        impl $Struct {
            /// Decode the first [`BYTES`] bytes; what follows is not looked at.
            ///
            /// # Errors
            /// `Truncated` when there are fewer.
            pub fn parse(bytes: &[u8]) -> Result<Self, $crate::Error> {
                if bytes.len() < BYTES {
                    return Err($crate::Error::Truncated { what: $name, need: BYTES, have: bytes.len() });
                }
                Ok(Self {
                    $($field: $crate::Bits::from_bits($CONST.get($crate::Order::$order, bytes)),)+
                })
            }

            /// Encode into the first [`BYTES`] bytes; what follows keeps its value.
            ///
            /// # Errors
            /// `Truncated` when there are fewer, `OutOfRange` when a value does not fit its field; then
            /// nothing was written.
            pub fn emit(&self, bytes: &mut [u8]) -> Result<(), $crate::Error> {
                if bytes.len() < BYTES {
                    return Err($crate::Error::Truncated { what: $name, need: BYTES, have: bytes.len() });
                }
                $(
                    let value = $crate::Bits::to_bits(self.$field);
                    if value > $CONST.max() {
                        return Err($crate::Error::OutOfRange {
                            what: $name,
                            field: stringify!($field),
                            width: $width,
                            value,
                        });
                    }
                )+
                $($CONST.set($crate::Order::$order, bytes, $crate::Bits::to_bits(self.$field));)+
                Ok(())
            }

            /// The encoded bytes.
            ///
            /// # Errors
            /// `OutOfRange` when a value does not fit its field.
            pub fn to_bytes(&self) -> Result<[u8; BYTES], $crate::Error> {
                let mut bytes = [0; BYTES];
                self.emit(&mut bytes)?;
                Ok(bytes)
            }
        }

        $crate::table::words! { $order $Struct, $name; $($CONST $field: $type, $width;)+ }
    };
}
pub(crate) use layout;

/// Declares the values of a coded field once: the enum, its conversions, and `Enum::CODES` for the tables.
macro_rules! codes {
    (
        $(#[doc = $doc:literal])+
        enum $Enum:ident, $name:literal;
        $(
            $(#[doc = $vdoc:literal])+
            $Variant:ident = $value:literal, $vname:literal;
        )+
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $Enum {
            $(
                $(#[doc = $vdoc])+
                $Variant = $value,
            )+
        }

        impl $Enum {
            /// Every value, in the order of the table.
            pub const ALL: &'static [$Enum] = &[$($Enum::$Variant),+];

            /// The table.
            pub const CODES: $crate::Codes = $crate::Codes {
                name: $name,
                doc: concat!($($doc),+),
                codes: &[$($crate::Code { name: $vname, value: $value, doc: concat!($($vdoc),+) }),+],
            };

            /// The value on the wire or in memory.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The name that C and the register pages use.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $vname,)+
                }
            }

            /// The meaning of a value, if it has one.
            pub const fn from_code(code: u8) -> Option<$Enum> {
                match code {
                    $($value => Some($Enum::$Variant),)+
                    _ => None,
                }
            }
        }

        impl TryFrom<u8> for $Enum {
            type Error = $crate::Error;
            fn try_from(value: u8) -> Result<Self, $crate::Error> {
                Self::from_code(value).ok_or($crate::Error::UnknownCode { what: $name, value })
            }
        }

        impl core::fmt::Display for $Enum {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use codes;

/// Declares a block of 32-bit registers once: a `Register` constant each, and `BLOCK`.
///
/// `REGISTER name @ offset { FIELD at first bit, width, access [= reset]; ... }`
macro_rules! registers {
    (
        $(#[doc = $doc:literal])+
        block $name:literal, $base:literal, $bytes:literal bytes;
        $(
            $(#[doc = $rdoc:literal])+
            $REG:ident $reg:ident @ $offset:literal {
                $(
                    $(#[doc = $fdoc:literal])+
                    $field:ident @ $bit:literal, $width:literal, $access:ident $(= $reset:expr)?;
                )+
            }
        )+
    ) => {
        $(
            #[doc = concat!("Offset ", stringify!($offset), ".")]
            ///
            $(#[doc = $rdoc])+
            pub const $REG: $crate::Register = $crate::Register {
                name: stringify!($reg),
                offset: $offset,
                bytes: 4,
                fields: &[$(
                    $crate::Field {
                        name: stringify!($field),
                        offset: $bit,
                        width: $width,
                        access: $crate::Access::$access,
                        reset: $crate::table::last(&[0 $(, $reset)?]),
                        clause: "host interface",
                        doc: concat!($($fdoc),+),
                    }
                ),+],
                doc: concat!($($rdoc),+),
            };
        )+

        /// The block.
        pub const BLOCK: $crate::Block = $crate::table::checked_block($crate::Block {
            name: $name,
            base: $base,
            bytes: $bytes,
            registers: &[$($REG),+],
            doc: concat!($($doc),+),
        });
    };
}
pub(crate) use registers;

/// Declares a block of 64-bit counters once: an enum whose codes are the counters' places, and `BLOCK`.
macro_rules! counters {
    (
        $(#[doc = $doc:literal])+
        enum $Enum:ident, $name:literal, $base:literal, $bytes:literal bytes;
        $(
            $(#[doc = $vdoc:literal])+
            $Variant:ident = $value:literal, $vname:literal;
        )+
    ) => {
        $crate::table::codes! {
            $(#[doc = $doc])+
            enum $Enum, $name;
            $(
                $(#[doc = $vdoc])+
                $Variant = $value, $vname;
            )+
        }

        impl $Enum {
            /// The counter's register, in [`BLOCK`].
            pub const fn register(self) -> $crate::Register {
                match self {
                    $($Enum::$Variant => $crate::Register {
                        name: $vname,
                        offset: 8 * $value,
                        bytes: 8,
                        fields: &[$crate::Field {
                            name: "count",
                            offset: 0,
                            width: 64,
                            access: $crate::Access::RO,
                            reset: 0,
                            clause: "host interface",
                            doc: "Events since reset; wraps.",
                        }],
                        doc: concat!($($vdoc),+),
                    },)+
                }
            }

            /// Address of the counter's low word in BAR 0; the high word follows it.
            pub const fn address(self) -> u32 {
                BLOCK.base + 8 * self as u32
            }
        }

        /// The counters' registers.
        pub const BLOCK: $crate::Block = $crate::table::checked_block($crate::Block {
            name: $name,
            base: $base,
            bytes: $bytes,
            registers: &[$($Enum::$Variant.register()),+],
            doc: concat!($($doc),+),
        });
    };
}
pub(crate) use counters;
