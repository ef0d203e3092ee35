//! Tiles: registers of sixteen rows of 64 bytes, and an instruction that multiplies two of them (AMX, on Linux).
//!
//! Rust has no stable functions for these instructions yet, so they are written as assembly here and nowhere else.

use std::{
    arch::{asm, x86_64::__cpuid_count},
    sync::OnceLock,
};

use super::{LeftTiles, TILE};

/// Whether this machine multiplies tiles of bfloat16 numbers, and the system lets us.
pub fn has_tiles() -> bool {
    static HAS_TILES: OnceLock<bool> = OnceLock::new();
    *HAS_TILES.get_or_init(|| is_supported() && is_permitted())
}

/// The processor has tiles of bfloat16 numbers and the instructions that fill them, and the system saves them.
fn is_supported() -> bool {
    let has_vectors = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bf16");
    // Bits of the manual: AMX-BF16 and AMX-TILE.
    if !has_vectors || __cpuid_count(7, 0).edx & (1 << 22 | 1 << 24) != 1 << 22 | 1 << 24 {
        return false;
    }
    let saved: u32;
    // SAFETY: a processor with AVX has this instruction; it reads register 0, of what the system saves.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nomem, nostack)) };
    saved & (1 << 17 | 1 << 18) == 1 << 17 | 1 << 18
}

/// Asks Linux for the memory that saving tiles takes. A process asks once for all of its threads.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: a system call that reads no memory; the registers it changes are named.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST_PERMISSION, in("rsi") TILE_DATA,
            out("rcx") _, out("r11") _, options(nostack));
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Makes all tiles sixteen rows of 64 bytes, for the current thread.
pub fn open() {
    #[repr(C, align(64))]
    struct Config {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        row_bytes: [u16; 16],
        rows: [u8; 16],
    }
    let first_eight = |value: u16| std::array::from_fn(|tile| if tile < 8 { value } else { 0 });
    let config = Config {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: first_eight(64),
        rows: first_eight(16).map(|rows: u16| rows as u8),
    };
    assert!(has_tiles(), "instructions that this machine lacks");
    // SAFETY: the processor has these instructions, and the 64 bytes that are read are a valid configuration.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) };
}

/// Gives the tiles of the current thread back, so that the system need not save them.
pub fn close() {
    assert!(has_tiles(), "instructions that this machine lacks");
    // SAFETY: the processor has this instruction; nobody relies on what tiles hold.
    unsafe {
        asm!("tilerelease", out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _,
            out("tmm5") _, out("tmm6") _, out("tmm7") _, options(nostack, nomem));
    }
}

/// What [`super::Simd::multiply_tiles`] says, after [`open`].
pub fn multiply(left: &LeftTiles, right: [&[f32]; 2], sums: &mut [f32; 4 * TILE], accumulate: bool) {
    left.check();
    let steps = left.steps.len();
    assert!(right.iter().all(|side| side.len() == steps * TILE), "{steps} steps of the right side");
    assert!(has_tiles(), "instructions that this machine lacks");
    if steps == 0 {
        if !accumulate {
            sums.fill(0.0);
        }
        return;
    }
    // SAFETY: the processor has these instructions. Rows of the left side were just checked, and so was the number of
    // tiles of the right side; four tiles of sums are read and written, which is their length.
    unsafe {
        asm!(
            "test {accumulate:e}, {accumulate:e}",
            "jnz 3f",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "jmp 2f",
            "3:",
            "tileloadd tmm0, [{sums} + {line}]",
            "tileloadd tmm1, [{sums} + {line} + 1024]",
            "tileloadd tmm2, [{sums} + {line} + 2048]",
            "tileloadd tmm3, [{sums} + {line} + 3072]",
            "2:",
            "mov {at1}, [{step}]",
            "lea {at0}, [{a0} + 4 * {at1}]",
            "lea {at1}, [{a1} + 4 * {at1}]",
            "tileloadd tmm4, [{at0} + {row}]",
            "tileloadd tmm6, [{b0} + {line}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b1} + {line}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{at1} + {row}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {step}, 8",
            "add {b0}, 1024",
            "add {b1}, 1024",
            "cmp {step}, {end}",
            "jne 2b",
            "tilestored [{sums} + {line}], tmm0",
            "tilestored [{sums} + {line} + 1024], tmm1",
            "tilestored [{sums} + {line} + 2048], tmm2",
            "tilestored [{sums} + {line} + 3072], tmm3",
            a0 = in(reg) left.values[left.starts[0]..].as_ptr(),
            a1 = in(reg) left.values[left.starts[1]..].as_ptr(),
            accumulate = in(reg) u32::from(accumulate),
            at0 = out(reg) _,
            at1 = out(reg) _,
            step = inout(reg) left.steps.as_ptr() => _,
            end = in(reg) left.steps.as_ptr_range().end,
            b0 = inout(reg) right[0].as_ptr() => _,
            b1 = inout(reg) right[1].as_ptr() => _,
            row = in(reg) 4 * left.row,
            line = in(reg) 64usize,
            sums = in(reg) sums.as_mut_ptr(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _,
            out("tmm6") _, out("tmm7") _, options(nostack),
        );
    }
}
