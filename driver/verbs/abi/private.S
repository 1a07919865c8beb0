/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Further versions of the two private names that programs import. */

#if defined(__x86_64__)
#define JUMP jmp
#elif defined(__aarch64__)
#define JUMP b
#elif defined(__riscv)
#define JUMP tail
#endif

.macro private name version
    .globl \name\()_\version
    .type \name\()_\version, %function
\name\()_\version:
    JUMP \name
    .size \name\()_\version, . - \name\()_\version
    .symver \name\()_\version, \name@IBVERBS_PRIVATE_\version
.endm

    .text
.irp version, 33, 57, 59, 64, 65
    private ibv_query_gid_type, \version
    private ibv_wr_opcode_str, \version
.endr
    .section .note.GNU-stack, "", %progbits
