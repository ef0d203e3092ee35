//! Tiles: registers of sixteen rows of 64 bytes, and an instruction that multiplies two of them (AMX, on Linux).
//!
//! Rust has no stable functions for these instructions yet, so they are written as assembly here and nowhere else.

use std::{
    arch::{asm, x86_64::__cpuid_count},
    sync::OnceLock,
};

/// Values, or pairs of bfloat16 numbers, in a tile.
const TILE: usize = 256;

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
pub fn multiply(a: [&[f32]; 2], b: [&[f32]; 2], parts: usize, sums: &mut [f32; 4 * TILE], accumulate: bool) {
    let steps = a[0].len() / (parts * TILE);
    assert!([a[0], a[1], b[0], b[1]].iter().all(|side| side.len() == steps * parts * TILE));
    assert!(has_tiles(), "instructions that this machine lacks");
    if !accumulate {
        sums.fill(0.0);
    }
    let [a, b] = [a, b].map(|sides| sides.map(|side| side.as_ptr()));
    if steps == 0 {
        return;
    }
    /// Loops over steps between loading the sums and storing them.
    macro_rules! run {
        ($($step:literal)*) => {
            // SAFETY: the processor has these instructions. Of each side `steps` times `parts` tiles are read, which
            // is its length; four tiles of sums are read and written, which is theirs.
            unsafe {
                asm!(
                    "tileloadd tmm0, [{sums} + {line}]",
                    "tileloadd tmm1, [{sums} + {line} + 1024]",
                    "tileloadd tmm2, [{sums} + {line} + 2048]",
                    "tileloadd tmm3, [{sums} + {line} + 3072]",
                    "2:",
                    $($step,)*
                    "add {a0}, {next}",
                    "add {a1}, {next}",
                    "add {b0}, {next}",
                    "add {b1}, {next}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{sums} + {line}], tmm0",
                    "tilestored [{sums} + {line} + 1024], tmm1",
                    "tilestored [{sums} + {line} + 2048], tmm2",
                    "tilestored [{sums} + {line} + 3072], tmm3",
                    a0 = inout(reg) a[0] => _,
                    a1 = inout(reg) a[1] => _,
                    b0 = inout(reg) b[0] => _,
                    b1 = inout(reg) b[1] => _,
                    steps = inout(reg) steps => _,
                    next = in(reg) 1024 * parts,
                    line = in(reg) 64usize,
                    sums = in(reg) sums.as_mut_ptr(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _,
                    out("tmm6") _, out("tmm7") _, options(nostack),
                );
            }
        };
    }
    if parts == 1 {
        run!(
            "tileloadd tmm4, [{a0} + {line}]"
            "tileloadd tmm6, [{b0} + {line}]"
            "tdpbf16ps tmm0, tmm4, tmm6"
            "tileloadd tmm7, [{b1} + {line}]"
            "tdpbf16ps tmm1, tmm4, tmm7"
            "tileloadd tmm5, [{a1} + {line}]"
            "tdpbf16ps tmm2, tmm5, tmm6"
            "tdpbf16ps tmm3, tmm5, tmm7"
        );
    } else {
        // Both first parts, then the second part of `a`, then that of `b`.
        run!(
            "tileloadd tmm4, [{a0} + {line}]"
            "tileloadd tmm6, [{b0} + {line}]"
            "tdpbf16ps tmm0, tmm4, tmm6"
            "tileloadd tmm7, [{b1} + {line}]"
            "tdpbf16ps tmm1, tmm4, tmm7"
            "tileloadd tmm5, [{a1} + {line}]"
            "tdpbf16ps tmm2, tmm5, tmm6"
            "tdpbf16ps tmm3, tmm5, tmm7"
            "tileloadd tmm4, [{a0} + {line} + 1024]"
            "tdpbf16ps tmm0, tmm4, tmm6"
            "tdpbf16ps tmm1, tmm4, tmm7"
            "tileloadd tmm5, [{a1} + {line} + 1024]"
            "tdpbf16ps tmm2, tmm5, tmm6"
            "tdpbf16ps tmm3, tmm5, tmm7"
            "tileloadd tmm6, [{b0} + {line} + 1024]"
            "tileloadd tmm4, [{a0} + {line}]"
            "tdpbf16ps tmm0, tmm4, tmm6"
            "tileloadd tmm7, [{b1} + {line} + 1024]"
            "tdpbf16ps tmm1, tmm4, tmm7"
            "tileloadd tmm5, [{a1} + {line}]"
            "tdpbf16ps tmm2, tmm5, tmm6"
            "tdpbf16ps tmm3, tmm5, tmm7"
        );
    }
}
