//! The hash in upstream's names: SHA-256, in base32, and of that the first letters.
//!
//! Written out here because forty lines of a test are not worth a dependency. The vectors are those of upstream's own tests.

/// The first `length` letters of the hash of a name.
pub(super) fn hash(name: &str, length: usize) -> String {
    base32(&sha256(name.as_bytes())).chars().take(length).collect()
}

fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let letter =
        |at: usize| char::from(LETTERS[(0..5).fold(0, |value, offset| value << 1 | bit(at * 5 + offset))]);
    (0..(bytes.len() * 8).div_ceil(5)).map(letter).collect()
}

/// FIPS 180-4.
fn sha256(message: &[u8]) -> [u8; 32] {
    let primes = primes();
    let mut state: [u32; 8] = std::array::from_fn(|n| root_bits(primes[n], 2));
    let rounds: [u32; 64] = std::array::from_fn(|n| root_bits(primes[n], 3));
    let mut padded = message.to_vec();
    padded.push(0x80);
    // Zeros up to eight bytes before the end of a block, where the length goes.
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block, &rounds);
    }
    let mut digest = [0; 32];
    digest
        .chunks_exact_mut(4)
        .zip(state)
        .for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
    digest
}

#[expect(clippy::many_single_char_names, reason = "the names of the standard")]
fn mix(state: &mut [u32; 8], block: &[u8], rounds: &[u32; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes(bytes.try_into().unwrap());
    }
    for n in 16..64 {
        let (a, b) = (words[n - 15], words[n - 2]);
        let small = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
        let large = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
        words[n] = words[n - 16].wrapping_add(small).wrapping_add(words[n - 7]).wrapping_add(large);
    }
    let mut next = *state;
    for (word, round) in words.iter().zip(rounds) {
        let [a, b, c, d, e, f, g, h] = next;
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(*round).wrapping_add(*word);
        let majority = a & b ^ a & c ^ b & c;
        let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
        next = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
    }
    state.iter_mut().zip(next).for_each(|(old, new)| *old = old.wrapping_add(new));
}

/// The first 64 primes, from whose roots the constants come.
fn primes() -> Vec<u128> {
    let is_prime = |n: &u128| (2..*n).all(|divisor| !n.is_multiple_of(divisor));
    (2..).filter(is_prime).take(64).collect()
}

/// The first 32 bits behind the point of a number's square or cube root.
fn root_bits(number: u128, power: u32) -> u32 {
    let scaled = number << (32 * power);
    // The root of the scaled number, bit by bit from the top; roots of these primes are below 2^5.
    let root = (0..37)
        .rev()
        .map(|bit| 1_u128 << bit)
        .fold(0, |root, bit| if (root | bit).pow(power) <= scaled { root | bit } else { root });
    (root & u128::from(u32::MAX)).try_into().unwrap()
}

pub(crate) mod tests {
    use super::{hash, sha256};

    pub(crate) fn names_are_upstreams() {
        let cases = [
            ("ns1/svc1:p80tcp", 16, "XPGD46QRK7WJZT7O"),
            ("ns1/svc1:p80tcp10.180.0.1:80", 16, "SXIVWICOYRO3J4NJ"),
            ("default/kubernetes:httpstcp", 16, "NPX46M4PTMTKRN6Y"),
            ("kube-system/kube-dns:dnsudp", 16, "TCOU7JCQXEZGVUNU"),
            ("ns1/svc1/tcp/p80", 8, "ULMVA6XW"),
            ("ns5/svc5/tcp/p80__10.180.0.3/80", 8, "GTK6MW7G"),
        ];
        for (name, length, expected) in cases {
            assert_eq!(hash(name, length), expected, "{name}");
        }
    }

    pub(crate) fn the_hash_is_sha_256_whatever_the_length() {
        let hex = |text: &str| sha256(text.as_bytes()).map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(
            hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
    }
}
