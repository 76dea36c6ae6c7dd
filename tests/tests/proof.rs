//! The proofs of `docs/statistics.md` in short: fixed seeds, and three standard errors of leave.

use edgedyno_tests::proof::{self, Row};

#[track_caller]
fn assert_kept(rows: &[Row]) {
    for row in rows {
        let (low, high) = row.allowed;
        let (share, slack) = (row.share(), row.slack(3.0));
        assert!(low - slack <= share && share <= high + slack, "{row}");
    }
}

#[test]
fn equal_arms_are_seldom_called_different() {
    assert_kept(&proof::false_alarms(200));
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    assert_kept(&proof::coverage(300));
}

#[test]
fn bounds_hold_on_dependent_series_too() {
    assert_kept(&proof::bounds(60));
}

#[test]
fn dependence_beyond_the_correction_is_marked() {
    assert_kept(&proof::marks(60));
}

#[test]
fn two_percent_are_found_with_ten_pairs() {
    assert_kept(&proof::power(200));
}
