// SPDX-License-Identifier: MIT OR Apache-2.0
//! The expansions, as text; what they mean is tested in `ferrowire-rtl`.

use crate::derive::{bundle, fsm, interface};
use crate::module::{expand_module, result_names};
use crate::naming::NameLets;
use proc_macro2::TokenStream as Tokens;
use quote::ToTokens;
use syn::visit_mut::VisitMut;
use syn::{parse_quote, Block, ItemFn, Result};

fn text(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().split_whitespace().collect()
}

fn module_error(mut item: ItemFn) -> String {
    expand_module(&mut item).unwrap_err().to_string()
}

#[test]
fn results_are_named_after_the_last_expression() {
    let names = |block: Block| result_names(&block);
    assert_eq!(
        names(parse_quote!({
            let a = f();
            a
        })),
        "a"
    );
    assert_eq!(names(parse_quote!({ (frame, r#type, f(x)) })), "frame,type,out2");
    assert_eq!(names(parse_quote!({ ({ (a, b) }) })), "a,b");
    assert_eq!(
        names(parse_quote!({
            return (a, b);
        })),
        "a,b"
    );
    assert_eq!(names(parse_quote!({ Out { a, b: c } })), "");
    assert_eq!(names(parse_quote!({ Self { a } })), "");
    assert_eq!(names(parse_quote!({ f(m, a) })), "out");
    assert_eq!(names(parse_quote!({ module::CONST })), "out");
    assert_eq!(names(parse_quote!({ todo!() })), "out");
}

#[test]
fn lets_are_named_at_every_depth_but_not_in_items() {
    let mut block: Block = parse_quote!({
        let a = f();
        let (b, (mut c, d), _e, Some(_)): (A, B, C, D) = g();
        let mut h = f();
        let i;
        let Some(j) = f() else {
            let k = g();
            return;
        };
        let n = 3;
        #[cfg(test)]
        let l = m.when(a, |m| {
            let o = f();
        });
        fn inner() {
            let p = f();
        }
        if x {
            let q = f();
        }
        let r#type = a;
    });
    NameLets.visit_block_mut(&mut block);
    let text = text(&block);
    let named: Vec<&str> = text.split("__name!(").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert_eq!(named, ["a", "b", "d", "k", "o", "l", "q", "r#type"]);
    assert!(text.contains("#[cfg(test)]::ferrowire_rtl::__name!(l);"));
}

#[test]
fn a_module_takes_its_hardware_in_and_leaves_its_parameters() {
    let mut item: ItemFn = parse_quote! {
        /// Documented.
        pub fn stage<T: Bundle>(s: &Scope, cfg: &Config, #[param] depth: u32, mut a: Stream<T>, b: Sig) -> (Sig, Sig) {
            let c = a.fire();
            (c, b)
        }
    };
    expand_module(&mut item).unwrap();
    let text = text(&item);
    for part in [
        "pubfnstage<T:Bundle>(s:&Scope,cfg:&Config,depth:u32,a:Stream<T>,b:Sig)->(Sig,Sig){",
        "#[track_caller]",
        "Instance::enter(s,\"stage\",::core::panic::Location::caller());",
        "letmuta=__instance.input(\"a\",a);letb=__instance.input(\"b\",b);",
        "lets=&__body;",
        "(||->(Sig,Sig){letc=a.fire();::ferrowire_rtl::__name!(c);(c,b)})();",
        "__instance.finish(__result,\"c,b\")}",
    ] {
        assert!(text.contains(part), "{part} not in {text}");
    }
}

#[test]
fn misused_modules_are_refused() {
    assert!(module_error(parse_quote!(
        fn f() {}
    ))
    .contains("`m: &Scope`"));
    assert!(module_error(parse_quote!(
        fn f(a: Sig) {}
    ))
    .contains("`m: &Scope`"));
    assert!(module_error(parse_quote!(
        fn f(m: &mut Scope) {}
    ))
    .contains("`m: &Scope`"));
    assert!(module_error(parse_quote!(
        fn f(&self, m: &Scope) {}
    ))
    .contains("without `self`"));
    assert!(module_error(parse_quote!(
        async fn f(m: &Scope) {}
    ))
    .contains("`async`"));
    assert!(module_error(parse_quote!(
        unsafe fn f(m: &Scope) {}
    ))
    .contains("`unsafe`"));
    assert!(module_error(parse_quote!(
        fn f(m: &Scope, (a, b): (Sig, Sig)) {}
    ))
    .contains("port needs a name"));
}

#[test]
fn misused_derives_are_refused() {
    let error = |result: Result<Tokens>| result.unwrap_err().to_string();
    assert!(error(bundle(&parse_quote!(
        struct S(Sig);
    )))
    .contains("named fields"));
    assert!(error(bundle(&parse_quote!(
        enum E {
            A,
        }
    )))
    .contains("`Bundle`"));
    assert!(error(interface(&parse_quote!(
        enum E {
            A,
        }
    )))
    .contains("`Interface`"));
    assert!(error(fsm(&parse_quote!(
        struct S {
            a: Sig,
        }
    )))
    .contains("enum"));
    assert!(error(fsm(&parse_quote!(
        enum E {
            A,
            B(u8),
        }
    )))
    .contains("no fields"));
    assert!(error(fsm(&parse_quote!(
        enum E {
            A = 3,
        }
    )))
    .contains("order of declaration"));
    assert!(error(fsm(&parse_quote!(
        enum E {}
    )))
    .contains("at least one"));
}

#[test]
fn only_generic_fields_are_bounded() {
    let derived = text(
        bundle(&parse_quote!(
            struct S<T> {
                a: Sig,
                b: Vec<T>,
                r#type: T,
            }
        ))
        .unwrap(),
    );
    assert!(derived.contains("whereVec<T>:::ferrowire_rtl::Bundle,T:::ferrowire_rtl::Bundle,S<T>:"));
    assert!(derived.contains("join(__path,\"type\")"));
}
