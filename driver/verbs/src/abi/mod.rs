// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declarations of `infiniband/verbs.h`, `tm_types.h`, `sa.h`, `opcode.h`, `rdma/rdma_cma.h` and
//! `rdma/rsocket.h`.
//!
//! Names, order and types are those of C. The declarations are those of rdma-core 65; the releases before it
//! have a part of them, with the same layout. `tests/layout.rs` proves this against what C compilers
//! measured with the headers of rdma-core 44, 56 and 65 (`abi/*.txt`).
//!
//! An enumeration is an integer type and constants, because a C program may store any value in it. A
//! pointer to a function is an `Option`, because C programs and providers leave slots empty.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    reason = "the names are those of C, whose manual pages explain constants and members"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the layouts are those of 64-bit processors");

pub mod layout;

pub mod ah;
pub mod cma;
pub mod cma_functions;
pub mod context;
pub mod counters;
pub mod cq;
pub mod device;
pub mod flow;
pub mod functions;
pub mod mr;
pub mod opcode;
pub mod pd;
pub mod port;
pub mod qp;
pub mod qp_ex;
pub mod sa;
pub mod srq;
pub mod system;
pub mod tm;
pub mod undeclared;
pub mod wq;
pub mod wr;

pub use self::{
    ah::*, cma::*, context::*, counters::*, cq::*, device::*, flow::*, mr::*, pd::*, port::*, qp::*,
    qp_ex::*, sa::*, srq::*, system::*, tm::*, wq::*, wr::*,
};

/// The declarations of one group of headers, for the test that proves them.
#[derive(Debug)]
pub struct Table {
    /// Structures and unions.
    pub layouts: &'static [&'static [layout::Layout]],
    /// Structures without members.
    pub opaques: &'static [&'static [layout::Opaque]],
    /// Enumerations.
    pub enumerations: &'static [&'static [layout::Enumeration]],
    /// Constants.
    pub constants: &'static [&'static [layout::Constant]],
    /// Functions.
    pub functions: &'static [layout::Function],
}

/// The headers of `libibverbs`, and the system's types.
pub static VERBS: Table = Table {
    layouts: &[
        system::LAYOUTS,
        port::LAYOUTS,
        device::LAYOUTS,
        pd::LAYOUTS,
        mr::LAYOUTS,
        ah::LAYOUTS,
        cq::LAYOUTS,
        srq::LAYOUTS,
        wq::LAYOUTS,
        wr::LAYOUTS,
        qp::LAYOUTS,
        qp_ex::LAYOUTS,
        flow::LAYOUTS,
        counters::LAYOUTS,
        context::LAYOUTS,
        tm::LAYOUTS,
        sa::LAYOUTS,
    ],
    opaques: &[system::OPAQUES, port::OPAQUES, mr::OPAQUES, context::OPAQUES],
    enumerations: &[
        port::ENUMERATIONS,
        device::ENUMERATIONS,
        pd::ENUMERATIONS,
        mr::ENUMERATIONS,
        ah::ENUMERATIONS,
        cq::ENUMERATIONS,
        srq::ENUMERATIONS,
        wq::ENUMERATIONS,
        wr::ENUMERATIONS,
        qp::ENUMERATIONS,
        flow::ENUMERATIONS,
        counters::ENUMERATIONS,
        context::ENUMERATIONS,
        tm::ENUMERATIONS,
        sa::ENUMERATIONS,
        opcode::ENUMERATIONS,
    ],
    constants: &[
        port::CONSTANTS,
        device::CONSTANTS,
        pd::CONSTANTS,
        mr::CONSTANTS,
        ah::CONSTANTS,
        cq::CONSTANTS,
        srq::CONSTANTS,
        wq::CONSTANTS,
        wr::CONSTANTS,
        qp::CONSTANTS,
        flow::CONSTANTS,
        counters::CONSTANTS,
        context::CONSTANTS,
        tm::CONSTANTS,
        sa::CONSTANTS,
        opcode::CONSTANTS,
    ],
    functions: functions::FUNCTIONS,
};

/// Functions that `libibverbs` exports though no public header declares them.
pub static UNDECLARED: Table = Table {
    layouts: &[],
    opaques: &[undeclared::OPAQUES],
    enumerations: &[],
    constants: &[],
    functions: undeclared::FUNCTIONS,
};

/// The headers of `librdmacm`.
pub static CMA: Table = Table {
    layouts: &[cma::LAYOUTS],
    opaques: &[],
    enumerations: &[cma::ENUMERATIONS],
    constants: &[cma::CONSTANTS],
    functions: cma_functions::FUNCTIONS,
};
