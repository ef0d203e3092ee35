//! A first look at a pickle from a stranger: how many operations it has.
//!
//! `pytorch-reader` executes nothing and checks every length, but it builds an object for every operation, and a few
//! kilobytes of zip can unfold to a hundred million of them. This walk builds nothing, and refuses a pickle with more
//! operations than any real checkpoint comes near, so that memory stays bounded.

use std::io::{self, BufRead, Read};

/// A ResNet-152 checkpoint with its optimiser has about 150,000.
const MAX_OPERATIONS: usize = 4_000_000;

/// No checkpoint's pickle is as long as this, storages apart. A few megabytes of zip can unfold to a thousand times
/// more.
const MAX_BYTES: u64 = 128 << 20;

/// Walks one pickle up to its STOP. An unknown operation ends the walk without an error: the parser will name it.
pub fn check(pickle: &mut impl BufRead) -> io::Result<()> {
    let mut pickle = pickle.take(MAX_BYTES);
    let result = walk(&mut pickle);
    match result {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && pickle.limit() == 0 => {
            Err(too_much(format_args!("is longer than {} MiB", MAX_BYTES >> 20)))
        }
        result => result,
    }
}

fn walk(pickle: &mut impl BufRead) -> io::Result<()> {
    for _ in 0..MAX_OPERATIONS {
        let operation = byte(pickle)?;
        let argument = match operation {
            b'.' => return Ok(()),
            // Opcodes without an argument.
            b'('
            | b'0'
            | b'1'
            | b'2'
            | b'N'
            | b'Q'
            | b'R'
            | b'a'
            | b'b'
            | b'd'
            | b'e'
            | b'l'
            | b'o'
            | b's'
            | b't'
            | b'u'
            | b'}'
            | b']'
            | b')'
            | 0x81
            | 0x85..=0x89
            | 0x8f..=0x94
            | 0x97
            | 0x98 => 0,
            b'K' | b'q' | b'h' | 0x80 | 0x82 => 1,
            b'M' | 0x83 => 2,
            b'J' | b'r' | b'j' | 0x84 => 4,
            b'G' | 0x95 => 8,
            b'U' | b'C' | 0x8a | 0x8c => u64::from(byte(pickle)?),
            b'T' | b'B' | b'X' | 0x8b => u64::from(u32::from_le_bytes(array(pickle)?)),
            0x8d | 0x8e | 0x96 => u64::from_le_bytes(array(pickle)?),
            b'F' | b'I' | b'L' | b'P' | b'S' | b'V' | b'g' | b'p' => {
                line(pickle)?;
                0
            }
            b'c' | b'i' => {
                line(pickle)?;
                line(pickle)?;
                0
            }
            _ => return Ok(()),
        };
        skip(pickle, argument)?;
    }
    Err(too_much(format_args!("has more than {MAX_OPERATIONS} operations")))
}

fn too_much(what: std::fmt::Arguments<'_>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("its pickle {what}, far more than any checkpoint"))
}

fn array<const N: usize>(pickle: &mut impl BufRead) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    pickle.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn byte(pickle: &mut impl BufRead) -> io::Result<u8> {
    Ok(array::<1>(pickle)?[0])
}

fn skip(pickle: &mut impl BufRead, length: u64) -> io::Result<()> {
    let skipped = io::copy(&mut pickle.take(length), &mut io::sink())?;
    if skipped == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn line(pickle: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = pickle.fill_buf()?;
        if buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        pickle.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pickle_is_walked_to_its_stop_and_no_further() {
        // Protocol 2, a short string, a global, an empty dict, STOP, and a byte after it.
        let bytes = b"\x80\x02U\x03abcctorch\nTensor\n}.Z";
        let mut reader = &bytes[..];
        check(&mut reader).unwrap();
        assert_eq!(reader, b"Z");
    }

    #[test]
    fn truncation_is_an_error() {
        for bytes in [&b"\x80\x02X\xff\xff\xff\xffabc"[..], b"\x80", b"cno newline", b"NNN"] {
            assert_eq!(check(&mut &bytes[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_bomb_is_refused_without_unfolding() {
        let endless = io::repeat(b'N');
        let error = check(&mut io::BufReader::new(endless)).unwrap_err();
        assert!(error.to_string().contains("operations"), "{error}");
        // One string of 2^62 bytes, and a line without an end.
        for start in [&b"\x8d\0\0\0\0\0\0\0\x40"[..], b"S"] {
            let endless = io::Read::chain(start, io::repeat(b'x'));
            let error = check(&mut io::BufReader::new(endless)).unwrap_err();
            assert!(error.to_string().contains("longer than 128 MiB"), "{error}");
        }
    }
}
