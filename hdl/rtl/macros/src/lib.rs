// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives and attributes of `ferrowire-rtl`, which re-exports all of them; use them from there.
#![forbid(unsafe_code)]

mod derive;
mod module;
mod naming;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::visit_mut::VisitMut;
use syn::{parse_macro_input, DeriveInput, Error, ItemFn, Result};

/// Makes a struct of signals a bundle: `Bundle`, `Interface`, and `Value` of itself, by value and by reference.
///
/// All fields are bundles; a field's signals are called after it. `Clone` is derived beside it.
///
/// ```ignore
/// #[derive(Clone, Bundle)]
/// pub struct Tagged<T> {
///     pub tag: Sig,
///     pub body: T,
/// }
/// ```
#[proc_macro_derive(Bundle)]
pub fn derive_bundle(input: TokenStream) -> TokenStream {
    finish(derive::bundle(&parse_macro_input!(input as DeriveInput)))
}

/// Lets a struct of streams and bundles pass a module's boundary.
///
/// ```ignore
/// #[derive(Interface)]
/// pub struct Dispatched {
///     pub request: Stream<Request>,
///     pub response: Stream<Response>,
///     pub dropped: Sig,
/// }
/// ```
#[proc_macro_derive(Interface)]
pub fn derive_interface(input: TokenStream) -> TokenStream {
    finish(derive::interface(&parse_macro_input!(input as DeriveInput)))
}

/// Makes a fieldless enum the states of an `Fsm`, numbered from zero in the order of declaration.
///
/// ```ignore
/// #[derive(Clone, Copy, Fsm)]
/// enum Walk {
///     Idle,
///     Fetch,
///     Done,
/// }
///
/// let state = m.fsm("state", Walk::Idle);
/// m.when(state.is(Walk::Idle) & start, |m| m.set(&state, Walk::Fetch));
/// ```
#[proc_macro_derive(Fsm)]
pub fn derive_fsm(input: TokenStream) -> TokenStream {
    finish(derive::fsm(&parse_macro_input!(input as DeriveInput)))
}

/// Makes a function a Verilog module of its own.
///
/// The first argument is the open scope. References, and arguments marked `#[param]`, are parameters of elaboration;
/// all others are hardware and become ports called after the argument. The results become ports called after the
/// function's last expression: a variable, a tuple of variables, or the fields of a struct literal; any other is
/// called `out`. A signal bound by `let` takes the variable's name, as in [`macro@circuit`].
///
/// ```ignore
/// #[module]
/// pub fn pipeline(m: &Scope, cfg: &RnicConfig, #[param] depth: u32, mac: Stream<Beat>) -> (Stream<Beat>, Sig) {
///     let (frame, verdict) = check(m, cfg, mac);
///     let frame = fifo(m, depth, frame);
///     (frame, verdict)
/// }
/// ```
#[proc_macro_attribute]
pub fn module(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(&args.into(), parse_macro_input!(item as ItemFn), module::expand_module)
}

/// Gives signals the names of the variables that `let` binds them to, in a function that is no module of its own.
///
/// Variables whose name starts with `_`, and those that are `mut` or `ref`, give none.
///
/// ```ignore
/// #[circuit]
/// fn average(a: Sig, b: Sig) -> Sig {
///     let sum = a.zext(a.width() + 1) + b.zext(a.width() + 1); // called `sum` in the Verilog
///     sum.slice(1, a.width())
/// }
/// ```
#[proc_macro_attribute]
pub fn circuit(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(&args.into(), parse_macro_input!(item as ItemFn), |item| {
        naming::NameLets.visit_block_mut(&mut item.block);
        Ok(())
    })
}

fn finish(result: Result<Tokens>) -> TokenStream {
    result.unwrap_or_else(Error::into_compile_error).into()
}

/// Expands the function in place; after an error the function is kept as it is, so that its callers still find it.
fn attribute(args: &Tokens, mut item: ItemFn, expand: impl FnOnce(&mut ItemFn) -> Result<()>) -> TokenStream {
    let mut result = expand(&mut item);
    if !args.is_empty() {
        result = Err(Error::new_spanned(args, "this attribute takes no arguments"));
    }
    let error = result.err().map(Error::into_compile_error);
    quote!(#item #error).into()
}
