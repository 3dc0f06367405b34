//! Weights → slots: whole numbers, as few as possible, whose proportions are the weights.

use std::collections::BinaryHeap;

/// No route has more slots than this, unless it has more endpoints.
pub(super) const MOST_SLOTS: u32 = 1024;

/// The slots of each endpoint, and whether shares had to be rounded. No weight may be 0.
///
/// Weights are divided by their greatest common divisor. Where that leaves more than [`MOST_SLOTS`], they are scaled down
/// to it; each endpoint keeps at least one slot, and what is left over goes to those that lost most by rounding.
pub(super) fn from_weights(weights: &[u8]) -> (Vec<u16>, bool) {
    let divisor = weights.iter().fold(0, |a, b| gcd(a, *b)).max(1);
    let parts: Vec<u32> = weights.iter().map(|w| u32::from(w / divisor)).collect();
    let total: u32 = parts.iter().sum();
    let limit = MOST_SLOTS.max(u32::try_from(weights.len()).unwrap_or(u32::MAX));
    if total <= limit {
        return (parts.into_iter().map(to_slots).collect(), false);
    }
    (scale(&parts, total, limit), true)
}

fn scale(parts: &[u32], total: u32, limit: u32) -> Vec<u16> {
    let scaled = |part: u32| u64::from(part) * u64::from(limit);
    let mut slots: Vec<u32> = parts.iter().map(|p| whole(scaled(*p) / u64::from(total)).max(1)).collect();
    let given: u32 = slots.iter().sum();
    // Slots forced up to one can overdraw the limit: then the largest give some back.
    let mut by_size: BinaryHeap<(u32, usize)> = slots.iter().copied().zip(0..).collect();
    for _ in limit..given {
        if let Some((size, i)) = by_size.pop() {
            slots[i] = size - 1;
            by_size.push((size - 1, i));
        }
    }
    let was_not_forced_up = |i: &usize| scaled(parts[*i]) >= u64::from(total);
    let mut order: Vec<usize> = (0..parts.len()).filter(was_not_forced_up).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(scaled(parts[i]) % u64::from(total)));
    for &i in order.iter().cycle().take(limit.saturating_sub(given) as usize) {
        slots[i] += 1;
    }
    slots.into_iter().map(to_slots).collect()
}

fn whole(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn to_slots(n: u32) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

fn gcd(a: u8, b: u8) -> u8 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_the_fewest_slots_with_their_proportions() {
        for (weights, slots, rounded) in [
            (vec![1], vec![1], false),
            (vec![1, 1, 1], vec![1, 1, 1], false),
            (vec![3, 1], vec![3, 1], false),
            (vec![100, 50], vec![2, 1], false),
            (vec![100, 100], vec![1, 1], false),
            (vec![99, 100], vec![99, 100], false),
        ] {
            assert_eq!(from_weights(&weights), (slots, rounded), "{weights:?}");
        }
    }

    #[test]
    fn more_than_the_limit_is_rounded_and_nobody_vanishes() {
        let mut weights = vec![100; 20];
        weights.push(1);
        let (slots, rounded) = from_weights(&weights);
        assert!(rounded);
        assert_eq!(slots.iter().map(|s| u32::from(*s)).sum::<u32>(), MOST_SLOTS);
        assert_eq!(slots[20], 1);
        assert!(slots[..20].iter().all(|s| (50..=52).contains(s)), "{slots:?}");
    }

    #[test]
    fn many_endpoints_have_a_slot_each() {
        let (slots, rounded) = from_weights(&vec![1; 5000]);
        assert_eq!((slots.len(), rounded), (5000, false));
        let mut weights = vec![1; 4999];
        weights.push(100);
        let (slots, rounded) = from_weights(&weights);
        assert!(rounded && slots.iter().all(|s| *s >= 1));
        assert_eq!(slots.iter().map(|s| u32::from(*s)).sum::<u32>(), 5000);
    }
}
