//! Whether a ServerHello of TLS 1.2 negotiates encrypt-then-MAC (RFC 7366).

/// Its type of extension.
const ENCRYPT_THEN_MAC: u16 = 22;

/// Whether a ServerHello of TLS 1.2 at the beginning of `flight` accepts encrypt-then-MAC; `None`
/// if there is none.
pub fn encrypt_then_mac(flight: &[u8]) -> Option<bool> {
    const RECORD_AND_MESSAGE_HEADS: usize = 5 + 4;
    const VERSION_AND_RANDOM: usize = 2 + 32;
    const SUITE_AND_COMPRESSION: usize = 2 + 1;
    let is_server_hello = flight.first() == Some(&22) && flight.get(5) == Some(&2);
    let mut rest = flight.get(RECORD_AND_MESSAGE_HEADS + VERSION_AND_RANDOM..)?;
    let (session, after) = rest.split_first()?;
    rest = after.get(usize::from(*session) + SUITE_AND_COMPRESSION..)?;
    let length = rest.first_chunk().map_or(0, |length| u16::from_be_bytes(*length));
    let mut extensions = rest.get(2..2 + usize::from(length)).unwrap_or_default();
    let mut accepted = false;
    while let Some(([kind, length], after)) = head(extensions) {
        accepted |= kind == ENCRYPT_THEN_MAC;
        extensions = after.get(usize::from(length)..)?;
    }
    is_server_hello.then_some(accepted)
}

/// Type and length of an extension, and what follows them.
fn head(extensions: &[u8]) -> Option<([u16; 2], &[u8])> {
    let (kind, rest) = extensions.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    Some(([u16::from_be_bytes(*kind), u16::from_be_bytes(*length)], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_hello(extensions: &[u8]) -> Vec<u8> {
        let mut hello = vec![22, 3, 3, 0, 0, 2, 0, 0, 0, 3, 3];
        hello.extend([7; 32]);
        hello.extend([2, 9, 9, 0, 0x2f, 0]);
        if !extensions.is_empty() {
            hello.extend([0, extensions.len() as u8]);
            hello.extend(extensions);
        }
        hello
    }

    #[test]
    fn a_server_hello_tells_whether_encrypt_then_mac_was_accepted() {
        let other = [0xff, 1, 0, 1, 0];
        let both = [0xff, 1, 0, 1, 0, 0, 22, 0, 0];
        assert_eq!(encrypt_then_mac(&server_hello(&both)), Some(true));
        assert_eq!(encrypt_then_mac(&server_hello(&other)), Some(false));
        assert_eq!(encrypt_then_mac(&server_hello(&[])), Some(false));
    }

    #[test]
    fn what_is_no_server_hello_tells_nothing() {
        let mut alert = server_hello(&[]);
        alert[0] = 21;
        assert_eq!(encrypt_then_mac(&alert), None);
        let hello = server_hello(&[0, 22, 0, 0]);
        for length in 0..hello.len() - 6 {
            assert_eq!(encrypt_then_mac(&hello[..length]), None, "{length}");
        }
    }
}
