//! Batches that grow, so that what is refused everywhere costs few requests at a time.

/// The parts of a list in batches of 1, 2, 4, ..., and no more than `widest` at a time.
pub(crate) fn growing<T>(mut rest: &[T], widest: usize) -> impl Iterator<Item = &[T]> {
    let mut size = 1_usize;
    std::iter::from_fn(move || {
        let (batch, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        (rest, size) = (behind, size.saturating_mul(2).min(widest));
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_double_up_to_the_widest() {
        let sizes: Vec<usize> = growing(&[(); 12], 4).map(<[()]>::len).collect();
        assert_eq!(sizes, [1, 2, 4, 4, 1]);
        assert_eq!(growing::<()>(&[], 4).count(), 0);
    }
}
