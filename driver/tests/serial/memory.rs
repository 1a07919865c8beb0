// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of on-board memory: who writes what, and how much there is.

use ferrowire::serial::SerialBus;
use ferrowire::spec::csr::timers;
use ferrowire::spec::serial::Command;
use ferrowire::*;

use super::board::{Board, Faults, BASE, BYTES, PATIENCE};

fn bus(board: &Board) -> SerialBus {
    SerialBus::over(board.clone(), PATIENCE).unwrap()
}

fn bytes(memory: &HostMemory) -> Vec<u8> {
    let mut all = vec![0; memory.len()];
    memory.read(0, &mut all);
    all
}

#[test]
fn bytes_that_program_and_card_write_side_by_side_all_stay() {
    let board = Board::new(Faults::default(), 1);
    let mut bus = bus(&board);
    let memory = HostMemory::zeroed(3 * 4096, 4096).unwrap().slice(0xf3, 5000);
    memory.fill(0, 5000, 0x11);
    let mapping = bus.dma_map(&memory, 12).unwrap();
    // Where the card has each byte.
    let place = |i: usize| mapping.pages[(0xf3 + i) / 4096] as usize - BASE as usize + (0xf3 + i) % 4096;
    let own = |i: usize, of: usize| (i * 7 + i / 9) % 3 == of;
    let mut wanted = vec![0x11; 5000];
    for round in 0..5u8 {
        for (i, wanted) in wanted.iter_mut().enumerate() {
            let byte = 3 * round + (i % 97) as u8;
            if own(i, 0) {
                memory.write(i, &[byte]);
            } else if own(i, 1) {
                board.state().memory.write(place(i), &[byte]);
            } else {
                continue;
            }
            *wanted = byte;
        }
        board.state().step();
        bus.progress().unwrap();
        // What the card wrote before the first look is there; what the program wrote is on the board.
        assert!(bytes(&memory) == wanted, "round {round}: the program's side");
        let state = board.state();
        let all = bytes(&state.memory);
        assert!((0..5000).all(|i| all[place(i)] == wanted[i]), "round {round}: the card's side");
    }
    board.state().card_writes(place(4000), &[0xab]);
    bus.dma_unmap(mapping).unwrap();
    wanted[4000] = 0xab;
    assert!(bytes(&memory) == wanted, "what the card wrote last");
}

#[test]
fn a_peer_that_writes_where_a_program_has_written_before_is_believed() {
    let board = Board::new(Faults::default(), 7);
    let mut bus = bus(&board);
    let memory = HostMemory::zeroed(4096, 4096).unwrap();
    let mapping = bus.dma_map(&memory, 12).unwrap();
    let place = (mapping.pages[0] - u64::from(BASE)) as usize;
    let mut wanted = vec![0; 4096];
    for round in 1..=4u8 {
        memory.fill(0, 4096, round);
        wanted.fill(round);
        // Nothing was called since, and the peer writes.
        board.state().card_writes(place + 700, &[0x80 | round; 1000]);
        wanted[700..1700].fill(0x80 | round);
        match round % 2 {
            0 => bus.progress().unwrap(),
            _ => bus.csr_write32(timers::BLOCK.address(&timers::TICK), 0).unwrap(),
        }
        assert!(bytes(&memory) == wanted, "round {round}: the program's side");
        assert!(
            bytes(&board.state().memory)[place..place + 4096] == wanted,
            "round {round}: the card's side"
        );
    }
}

#[test]
fn memory_of_a_queue_is_zeros_whatever_was_there() {
    let board = Board::new(Faults::default(), 2);
    let mut bus = bus(&board);
    for round in 0..6u8 {
        let buffer = bus.dma_alloc(5000, 4096).unwrap();
        let at = (buffer.bus_address() - u64::from(BASE)) as usize;
        let state = board.state();
        assert!(bytes(&state.memory)[at..at + 5000].iter().all(|byte| *byte == 0), "round {round}");
        drop(state);
        buffer.memory().write(100, &[round; 999]);
        bus.progress().unwrap();
        board.state().card_writes(at + 300, &[!round; 300]);
        // It is seen, or comes when the memory is nobody's any more.
        if round % 2 == 0 {
            bus.progress().unwrap();
        }
        bus.dma_free(buffer).unwrap();
    }
}

#[test]
fn what_did_not_change_is_not_carried() {
    let board = Board::new(Faults::default(), 3);
    let mut bus = bus(&board);
    let memory = HostMemory::zeroed(40_000, 4096).unwrap();
    let mapping = bus.dma_map(&memory, 12).unwrap();
    board.state().done.clear();
    (0..3).for_each(|_| bus.progress().unwrap());
    let count = |board: &Board, command: Command| {
        board.state().done.iter().filter(|(done, ..)| *done == command as u8).count()
    };
    assert_eq!((count(&board, Command::Read), count(&board, Command::Write)), (0, 0));
    memory.write(8, &[1, 0, 1]);
    board.state().card_writes((mapping.pages[3] - u64::from(BASE)) as usize + 700, &[5; 30]);
    (0..3).for_each(|_| bus.progress().unwrap());
    assert_eq!((count(&board, Command::Read), count(&board, Command::Write)), (1, 2));
    let mut now = [0; 30];
    memory.read(3 * 4096 + 700, &mut now);
    assert_eq!(now, [5; 30]);
}

#[test]
fn memory_that_is_used_up_is_told_and_comes_back() {
    let board = Board::new(Faults::default(), 4);
    let mut bus = bus(&board);
    let all = BYTES / 4096;
    let mut buffers: Vec<DmaBuffer> = (0..all - 3).map(|_| bus.dma_alloc(1, 4096).unwrap()).collect();
    let memory = HostMemory::zeroed(3 * 4096, 4096).unwrap();
    let error = bus.dma_map(&memory.slice(0, 3 * 4096), 12).and_then(|mapping| {
        let more = bus.dma_map(&memory, 12).unwrap_err();
        bus.dma_unmap(mapping).unwrap();
        Err::<(), _>(more)
    });
    let wanted = BusError::BoardMemory { bytes: 3 * 4096, align: 4096, free: 0, all: BYTES as u64 };
    assert_eq!(error, Err(wanted));
    // In pieces it would fit, and a mapping takes pieces.
    let gone = buffers.remove(4);
    bus.dma_free(gone).unwrap();
    let error = bus.dma_alloc(4 * 4096, 4096).unwrap_err();
    assert!(error.to_string().contains("16384 of its"), "{error}");
    let memory = HostMemory::zeroed(4 * 4096, 4096).unwrap();
    let mapping = bus.dma_map(&memory, 12).unwrap();
    assert_eq!(mapping.pages.len(), 4);
    // Nothing of this is known.
    for wrong in [bus.dma_unmap(DmaMapping { id: 999, pages: vec![] }), bus.dma_map(&memory, 21).map(|_| ())]
    {
        assert!(matches!(wrong, Err(BusError::Map { .. })), "{wrong:?}");
    }
    let aligned = bus.dma_alloc(4096, 1 << 20).unwrap_err();
    assert!(matches!(aligned, BusError::BoardMemory { align: 0x10_0000, .. }), "{aligned:?}");
}

/// Data in the first part of memory that one request asks about, and a queue in the second, so that the card can write both between the looks at them.
fn parts(bus: &mut SerialBus) -> (HostMemory, usize, DmaBuffer, usize) {
    let data = HostMemory::zeroed(8 * 4096, 4096).unwrap();
    let mapping = bus.dma_map(&data, 12).unwrap();
    let _between = bus.dma_alloc(16 * 4096, 4096).unwrap();
    let queue = bus.dma_alloc(4096, 4096).unwrap();
    let at = (queue.bus_address() - u64::from(BASE)) as usize;
    (data, (mapping.pages[0] - u64::from(BASE)) as usize, queue, at)
}

#[test]
fn what_a_queue_tells_of_is_there_whenever_the_card_has_written_it() {
    let board = Board::new(Faults::default(), 5);
    let mut bus = bus(&board);
    let (data, data_at, queue, queue_at) = parts(&mut bus);
    for round in 1..=60u64 {
        let number = round.to_le_bytes().to_vec();
        let writes = vec![(data_at + 5000, number.clone()), (queue_at + 32, number)];
        board.state().later = Some((round as usize % 12, writes));
        for _ in 0..12 {
            bus.progress().unwrap();
            let (told, there) = (queue.memory().load_word(32), data.load_word(5000));
            assert!(told <= there, "round {round}: the queue tells of {told}, and the data are {there}");
        }
        assert_eq!((queue.memory().load_word(32), data.load_word(5000)), (round, round));
    }
}

#[test]
fn another_thread_sees_nothing_in_a_queue_before_its_data() {
    let board = Board::new(Faults::default(), 6);
    let mut bus = bus(&board);
    let (data, data_at, queue, queue_at) = parts(&mut bus);
    const ROUNDS: u64 = 60;
    let (words, told) = (data.clone(), queue.memory().clone());
    let reader = std::thread::spawn(move || {
        let mut last = 0;
        while last < ROUNDS {
            last = told.load_word(0);
            let there = words.load_word(8 * 4096 - 8);
            assert!(last <= there, "the queue tells of {last}, and the data are {there}");
        }
    });
    for round in 1..=ROUNDS {
        let mut state = board.state();
        let number = round.to_le_bytes();
        (0..8 * 16).for_each(|block| state.memory.write(data_at + block * 256 + 248, &number));
        state.card_writes(queue_at, &number);
        drop(state);
        bus.progress().unwrap();
    }
    reader.join().unwrap();
}
