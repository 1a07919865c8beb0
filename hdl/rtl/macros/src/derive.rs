// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Bundle`, `Interface` and `Fsm`.

use proc_macro2::{Span, TokenStream as Tokens, TokenTree};
use quote::{quote, quote_spanned, ToTokens};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{parse_quote, Data, DeriveInput, Error, Field, Fields, Generics, Ident, Result};

fn named_fields<'a>(input: &'a DeriveInput, derive: &str) -> Result<Vec<&'a Field>> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().collect()),
            _ => Err(Error::new_spanned(
                &input.ident,
                format!("`{derive}` needs named fields: signals are called after them"),
            )),
        },
        _ => Err(Error::new_spanned(
            &input.ident,
            format!("`{derive}` can only be derived for a struct with named fields"),
        )),
    }
}

/// The generics with `FieldTy: bound` for each field whose type depends on a type parameter.
fn bounded(generics: &Generics, fields: &[&Field], bound: &Tokens) -> Generics {
    let params: Vec<&Ident> = generics.type_params().map(|p| &p.ident).collect();
    let mut result = generics.clone();
    for field in fields {
        let ty = &field.ty;
        if mentions(ty.to_token_stream(), &params) {
            result.make_where_clause().predicates.push(parse_quote!(#ty: #bound));
        }
    }
    result
}

fn mentions(tokens: Tokens, params: &[&Ident]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => params.iter().any(|p| **p == ident),
        TokenTree::Group(group) => mentions(group.stream(), params),
        _ => false,
    })
}

/// A place of the source for what is generated, so that errors point there.
fn here(place: Span) -> Span {
    place.resolved_at(Span::call_site())
}

/// Each field's name, the same as text, and its type's span, where a missing trait is then reported.
fn field_names<'a>(fields: &[&'a Field]) -> impl Iterator<Item = (&'a Ident, String, Span)> {
    let fields: Vec<_> = fields
        .iter()
        .filter_map(|f| f.ident.as_ref().map(|name| (name, name.unraw().to_string(), here(f.ty.span()))))
        .collect();
    fields.into_iter()
}

pub(crate) fn interface(input: &DeriveInput) -> Result<Tokens> {
    let fields = named_fields(input, "Interface")?;
    let generics = bounded(&input.generics, &fields, &quote!(::ferrowire_rtl::Interface));
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;
    let crossed = field_names(&fields).map(|(field, text, span)| {
        let path = quote!(&::ferrowire_rtl::join(__path, #text));
        let cross = quote_spanned!(span=> ::ferrowire_rtl::Interface::cross(self.#field, __crossing, #path));
        quote!(#field: #cross)
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::ferrowire_rtl::Interface for #name #ty_generics #where_clause {
            #[allow(unused_variables)]
            fn cross(self, __crossing: &mut ::ferrowire_rtl::Crossing, __path: &str) -> Self {
                Self { #(#crossed),* }
            }
        }
    })
}

pub(crate) fn bundle(input: &DeriveInput) -> Result<Tokens> {
    let fields = named_fields(input, "Bundle")?;
    let interface = interface(input)?;
    let name = &input.ident;
    let mut generics = bounded(&input.generics, &fields, &quote!(::ferrowire_rtl::Bundle));
    if generics.type_params().next().is_some() {
        // A derived `Clone` bounds the parameters, which the fields' bounds need not imply.
        let (_, ty_generics, _) = input.generics.split_for_impl();
        let clone = parse_quote!(#name #ty_generics: ::core::clone::Clone);
        generics.make_where_clause().predicates.push(clone);
    }
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let mapped = field_names(&fields).map(|(field, text, span)| {
        let path = quote!(&::ferrowire_rtl::join(__path, #text));
        let map = quote_spanned!(span=> ::ferrowire_rtl::Bundle::map(&self.#field, #path, __f));
        quote!(#field: #map)
    });
    let this = quote!(#name #ty_generics);
    let location = quote!(&'static ::core::panic::Location<'static>);
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::ferrowire_rtl::Bundle for #this #where_clause {
            #[allow(unused_variables)]
            fn map(
                &self,
                __path: &str,
                __f: &mut dyn ::core::ops::FnMut(&str, &::ferrowire_rtl::Sig) -> ::ferrowire_rtl::Sig,
            ) -> Self {
                Self { #(#mapped),* }
            }
        }

        #interface

        #[automatically_derived]
        impl #impl_generics ::ferrowire_rtl::Value<#this> for #this #where_clause {
            fn value(self, _target: &#this, _loc: #location) -> #this {
                self
            }
        }

        #[automatically_derived]
        impl #impl_generics ::ferrowire_rtl::Value<#this> for &#this #where_clause {
            fn value(self, _target: &#this, _loc: #location) -> #this {
                ::core::clone::Clone::clone(self)
            }
        }
    })
}

pub(crate) fn fsm(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(name, "`Fsm` can only be derived for an enum without fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "the states of an `Fsm` take no generics"));
    }
    if data.variants.is_empty() {
        return Err(Error::new_spanned(name, "an `Fsm` needs at least one state"));
    }
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(
                variant,
                "a state of an `Fsm` has no fields; use a register beside it",
            ));
        }
        if let Some((_, discriminant)) = &variant.discriminant {
            let message = "states are numbered in the order of declaration; leave this number out";
            return Err(Error::new_spanned(discriminant, message));
        }
    }
    let title = name.unraw().to_string();
    let variants: Vec<&Ident> = data.variants.iter().map(|v| &v.ident).collect();
    let texts = variants.iter().map(|v| v.unraw().to_string());
    let indices = 0u64..;
    Ok(quote! {
        #[automatically_derived]
        impl ::ferrowire_rtl::FsmState for #name {
            const VARIANTS: &'static [&'static str] = &[#(#texts),*];
            const NAME: &'static str = #title;
            fn index(self) -> u64 {
                match self {
                    #(Self::#variants => #indices,)*
                }
            }
        }

        #[automatically_derived]
        impl ::ferrowire_rtl::Value<::ferrowire_rtl::Fsm<#name>> for #name {
            fn value(
                self,
                _target: &::ferrowire_rtl::Fsm<#name>,
                loc: &'static ::core::panic::Location<'static>,
            ) -> ::ferrowire_rtl::Fsm<#name> {
                ::ferrowire_rtl::Fsm::constant(self, loc)
            }
        }
    })
}
