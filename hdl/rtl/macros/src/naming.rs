// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names from `let`.

use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::visit_mut::{self, VisitMut};
use syn::{parse_quote, Block, Expr, ExprConst, Ident, Item, Local, Pat, Stmt};

/// Follows each `let` of plain variables with `__name!` for each.
pub(crate) struct NameLets;

impl VisitMut for NameLets {
    fn visit_block_mut(&mut self, block: &mut Block) {
        visit_mut::visit_block_mut(self, block);
        for stmt in std::mem::take(&mut block.stmts) {
            let names = match &stmt {
                Stmt::Local(local) => name_statements(local),
                _ => Vec::new(),
            };
            block.stmts.push(stmt);
            block.stmts.extend(names);
        }
    }

    // Items are functions of their own, and constants cannot name anything.
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
}

fn name_statements(local: &Local) -> Vec<Stmt> {
    let mut names = Vec::new();
    match &local.init {
        Some(init) if init.diverge.is_none() && !matches!(*init.expr, Expr::Lit(_) | Expr::Closure(_)) => {
            bound(&local.pat, &mut names);
        }
        _ => {}
    }
    let cfgs: Vec<_> = local.attrs.iter().filter(|a| a.path().is_ident("cfg")).collect();
    let statement = |name: &Ident| {
        let call = quote_spanned!(name.span()=> ::ferrowire_rtl::__name!(#name););
        parse_quote!(#(#cfgs)* #call)
    };
    names.into_iter().map(statement).collect()
}

/// The variables of a pattern that give their name.
fn bound<'a>(pat: &'a Pat, names: &mut Vec<&'a Ident>) {
    match pat {
        Pat::Ident(p) => {
            let plain = p.by_ref.is_none() && p.mutability.is_none() && p.subpat.is_none();
            if plain && !p.ident.unraw().to_string().starts_with('_') {
                names.push(&p.ident);
            }
        }
        Pat::Type(typed) => bound(&typed.pat, names),
        Pat::Paren(inner) => bound(&inner.pat, names),
        Pat::Tuple(tuple) => tuple.elems.iter().for_each(|part| bound(part, names)),
        _ => {}
    }
}
