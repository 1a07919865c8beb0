// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a netlist without loops is walked.

use anyhow::{bail, Result};

/// The numbers of the arcs, each a net that leads to another, so that each arc comes after all that lead to its beginning.
///
/// # Errors
/// A loop, with the name of a net in it.
pub fn order(names: &[impl AsRef<str>], arcs: &[(u32, u32)]) -> Result<Vec<u32>> {
    let count = names.len();
    let mut waiting = vec![0u32; count];
    // Arcs that leave a net are neighbours in `leaving`; `first` is where each net's begin.
    let mut first = vec![0u32; count + 1];
    for (from, to) in arcs {
        waiting[*to as usize] += 1;
        first[*from as usize + 1] += 1;
    }
    for net in 0..count {
        first[net + 1] += first[net];
    }
    let mut next = first.clone();
    let mut leaving = vec![0u32; arcs.len()];
    for (index, (from, _)) in arcs.iter().enumerate() {
        let place = &mut next[*from as usize];
        leaving[*place as usize] = index as u32;
        *place += 1;
    }
    let mut ready: Vec<u32> = (0..count as u32).filter(|net| waiting[*net as usize] == 0).collect();
    let mut order = Vec::with_capacity(arcs.len());
    while let Some(net) = ready.pop() {
        for index in &leaving[first[net as usize] as usize..first[net as usize + 1] as usize] {
            order.push(*index);
            let to = arcs[*index as usize].1;
            waiting[to as usize] -= 1;
            if waiting[to as usize] == 0 {
                ready.push(to);
            }
        }
    }
    if order.len() < arcs.len() {
        bail!("a combinational loop through {}", around(names, arcs, &waiting).join(", "));
    }
    Ok(order)
}

/// Nets of a loop, those with a name of the source if there are any.
fn around<'a>(names: &'a [impl AsRef<str>], arcs: &[(u32, u32)], waiting: &[u32]) -> Vec<&'a str> {
    // Whatever waits is in a loop or after one, so of each net that waits a net before it waits, too.
    let mut before: Vec<Option<u32>> = vec![None; names.len()];
    for (from, to) in
        arcs.iter().filter(|(from, to)| waiting[*from as usize] > 0 && waiting[*to as usize] > 0)
    {
        before[*to as usize] = Some(*from);
    }
    let mut seen = vec![false; names.len()];
    let mut net = before.iter().flatten().next().copied();
    while let Some(here) = net.filter(|net| !seen[*net as usize]) {
        seen[here as usize] = true;
        net = before[here as usize];
    }
    let Some(begin) = net else { return Vec::new() };
    let mut ring = vec![begin];
    while let Some(here) = before[ring[ring.len() - 1] as usize].filter(|net| *net != begin) {
        ring.push(here);
    }
    let all: Vec<&str> = ring.iter().rev().map(|net| names[*net as usize].as_ref()).collect();
    let named: Vec<&str> = all.iter().copied().filter(|name| !name.starts_with('$')).collect();
    if named.is_empty() { all } else { named }.into_iter().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arc_comes_after_those_that_lead_to_it() {
        let arcs = [(2, 3), (0, 1), (1, 2), (0, 2)];
        let order = order(&["a", "b", "c", "d"], &arcs).unwrap();
        let at = |arc| order.iter().position(|index| *index == arc).unwrap();
        assert!(at(1) < at(2) && at(2) < at(0) && at(3) < at(0) && order.len() == 4);
    }

    #[test]
    fn a_loop_is_named_and_what_is_after_it_is_not() {
        let arcs = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)];
        let error = order(&["in", "ready", "valid", "$1", "out"], &arcs).unwrap_err().to_string();
        let (what, nets) = error.split_once(" through ").unwrap();
        let mut nets: Vec<&str> = nets.split(", ").collect();
        nets.sort_unstable();
        assert_eq!((what, &nets[..]), ("a combinational loop", &["ready", "valid"][..]));
    }
}
