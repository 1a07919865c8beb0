// SPDX-License-Identifier: MIT OR Apache-2.0
//! `#[module]`.

use crate::naming::NameLets;
use proc_macro2::Span;
use quote::{format_ident, quote, quote_spanned, ToTokens};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{
    parse_quote, Block, Error, Expr, FnArg, Ident, ItemFn, Pat, Result, ReturnType, Stmt, Type, TypeImplTrait,
};

/// Expands the function in place.
pub(crate) fn expand_module(item: &mut ItemFn) -> Result<()> {
    // First of all strip `#[param]`, which rustc would not know.
    let marked: Vec<bool> = item.sig.inputs.iter_mut().map(take_param).collect();
    refuse_qualifiers(item)?;
    let scope = scope_argument(item)?;
    let mut inputs = Vec::new();
    for (arg, marked) in item.sig.inputs.iter_mut().zip(marked).skip(1) {
        let FnArg::Typed(arg) = arg else { continue };
        if marked || is_reference(&arg.ty) {
            continue;
        }
        let Pat::Ident(pat) = &mut *arg.pat else {
            let message = "a port needs a name: take a variable here and split it in the body \
                           (or mark the argument `#[param]`)";
            return Err(Error::new_spanned(&arg.pat, message));
        };
        if pat.by_ref.is_some() || pat.subpat.is_some() {
            return Err(Error::new_spanned(pat, "a port needs a plain name"));
        }
        // The argument is taken in under its own name; only what the body sees is `mut`.
        let mutability = pat.mutability.take();
        let name = pat.ident.clone();
        let text = name.unraw().to_string();
        let attrs = arg.attrs.clone();
        inputs.push((attrs, mutability, name, text, arg.ty.span()));
    }

    let results = match is_unit(&item.sig.output) {
        true => String::new(),
        false => result_names(&item.block),
    };
    NameLets.visit_block_mut(&mut item.block);

    let here = Span::mixed_site();
    let instance = format_ident!("__instance", span = here);
    let result = format_ident!("__result", span = here);
    let inputs = inputs.into_iter().map(|(attrs, mutability, name, text, span)| {
        let input = quote_spanned!(span=> input);
        quote!(#(#attrs)* let #mutability #name = #instance.#input(#text, #name);)
    });
    let module = item.sig.ident.unraw().to_string();
    let body = &item.block;
    // The body runs in a closure, so that a `return` in it still leaves through `finish`.
    let run = match &item.sig.output {
        output if is_unit(output) => quote! {
            #[allow(clippy::redundant_closure_call)]
            let () = (|| #body)();
            #instance.finish((), "")
        },
        output => {
            let output = (!has_impl_trait(output)).then_some(output);
            quote! {
                #[allow(clippy::redundant_closure_call)]
                let #result = (|| #output #body)();
                #instance.finish(#result, #results)
            }
        }
    };
    let inner = format_ident!("__body", span = here);
    let stmts: Vec<Stmt> = parse_quote! {
        let #instance =
            ::ferrowire_rtl::Instance::enter(#scope, #module, ::core::panic::Location::caller());
        #(#inputs)*
        let #inner = #instance.scope();
        let #scope = &#inner;
        let _ = #scope;
        #run
    };
    item.block.stmts = stmts;
    if !item.attrs.iter().any(|a| a.path().is_ident("track_caller")) {
        item.attrs.push(parse_quote!(#[track_caller]));
    }
    Ok(())
}

/// Takes `#[param]` off an argument and tells whether it was there.
fn take_param(arg: &mut FnArg) -> bool {
    let attrs = match arg {
        FnArg::Receiver(arg) => &mut arg.attrs,
        FnArg::Typed(arg) => &mut arg.attrs,
    };
    let before = attrs.len();
    attrs.retain(|a| !a.path().is_ident("param"));
    attrs.len() < before
}

fn refuse_qualifiers(item: &ItemFn) -> Result<()> {
    let sig = &item.sig;
    let refuse = |what: &dyn ToTokens, name: &str| {
        Err(Error::new_spanned(what, format!("a module is a plain function; it cannot be `{name}`")))
    };
    if let Some(token) = &sig.constness {
        return refuse(token, "const");
    }
    if let Some(token) = &sig.asyncness {
        return refuse(token, "async");
    }
    if let Some(token) = &sig.unsafety {
        return refuse(token, "unsafe");
    }
    if let Some(abi) = &sig.abi {
        return refuse(abi, "extern");
    }
    if let Some(FnArg::Receiver(receiver)) = sig.inputs.first() {
        let message = "a module is a plain function without `self`; \
                       pass what it needs as a reference after the scope";
        return Err(Error::new_spanned(receiver, message));
    }
    Ok(())
}

/// The name of the first argument, which must be `name: &Scope`.
fn scope_argument(item: &ItemFn) -> Result<Ident> {
    const MESSAGE: &str = "the first argument of a module is the open scope: `m: &Scope`";
    let Some(FnArg::Typed(arg)) = item.sig.inputs.first() else {
        return Err(Error::new_spanned(&item.sig.ident, MESSAGE));
    };
    let is_scope = match &*arg.ty {
        Type::Reference(reference) if reference.mutability.is_none() => match &*reference.elem {
            Type::Path(path) => path.path.segments.last().is_some_and(|s| s.ident == "Scope"),
            _ => false,
        },
        _ => false,
    };
    match &*arg.pat {
        Pat::Ident(p) if is_scope && p.by_ref.is_none() && p.mutability.is_none() && p.subpat.is_none() => {
            Ok(p.ident.clone())
        }
        _ => Err(Error::new_spanned(arg, MESSAGE)),
    }
}

fn is_reference(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) => true,
        Type::Paren(inner) => is_reference(&inner.elem),
        Type::Group(inner) => is_reference(&inner.elem),
        _ => false,
    }
}

fn is_unit(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => true,
        ReturnType::Type(_, ty) => matches!(&**ty, Type::Tuple(tuple) if tuple.elems.is_empty()),
    }
}

/// A closure cannot declare such a result.
fn has_impl_trait(output: &ReturnType) -> bool {
    struct Find(bool);
    impl VisitMut for Find {
        fn visit_type_impl_trait_mut(&mut self, _: &mut TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut find = Find(false);
    find.visit_return_type_mut(&mut output.clone());
    find.0
}

/// The names of a module's results, from its last expression.
pub(crate) fn result_names(body: &Block) -> String {
    match body.stmts.last() {
        Some(Stmt::Expr(expr, None)) => names_of(expr),
        Some(Stmt::Expr(Expr::Return(ret), Some(_))) => ret.expr.as_deref().map_or("out".into(), names_of),
        _ => "out".into(),
    }
}

fn names_of(expr: &Expr) -> String {
    match expr {
        Expr::Paren(inner) => names_of(&inner.expr),
        Expr::Group(inner) => names_of(&inner.expr),
        Expr::Return(ret) => ret.expr.as_deref().map_or("out".into(), names_of),
        Expr::Block(block) => result_names(&block.block),
        Expr::Struct(_) => String::new(),
        Expr::Tuple(tuple) => {
            let names = tuple.elems.iter().enumerate();
            let names = names.map(|(i, part)| variable(part).unwrap_or_else(|| format!("out{i}")));
            names.collect::<Vec<_>>().join(",")
        }
        other => variable(other).unwrap_or_else(|| "out".into()),
    }
}

fn variable(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => path.path.get_ident().map(|ident| ident.unraw().to_string()),
        _ => None,
    }
}
