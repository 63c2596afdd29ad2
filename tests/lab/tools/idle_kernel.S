/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A PVH guest that runs for a moment, long enough for Xen's accounts, and sleeps for ever: for lab
 * cases in which many domains must run and none must do anything. Entered as Xen's public/elfnote.h
 * says of XEN_ELFNOTE_PHYS32_ENTRY: in protected mode, without paging. It asks nothing of Xen. With
 * interrupts off Xen would take hlt for its end.
 */
    .section .note.Xen, "a", @note
    .balign 4
    .long 4                     /* length of the name */
    .long 4                     /* and of what follows it */
    .long 18                    /* XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .long _start

    .text
    .code32
    .globl _start
_start:
    movl $2000000, %ecx
2:  decl %ecx
    jnz 2b
    sti
1:  hlt
    jmp 1b

    .section .note.GNU-stack, "", @progbits
