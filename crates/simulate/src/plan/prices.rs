//! Prices of devices: lines of `NAME: PRICE`.

use std::collections::BTreeMap;

/// Prices by the names of devices; else which line is wrong.
pub fn read_prices(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let mut prices = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let wrong = || format!("line {}: `{line}` is not `NAME: PRICE`", index + 1);
        let (name, price) = line.split_once(':').ok_or_else(wrong)?;
        let price: f64 = price.trim().parse().map_err(|_| wrong())?;
        if !(price > 0.0 && price.is_finite()) {
            return Err(format!("line {}: a price is a positive number", index + 1));
        }
        if prices.insert(name.trim().to_owned(), price).is_some() {
            return Err(format!(
                "line {}: a second price of {}",
                index + 1,
                name.trim()
            ));
        }
    }
    Ok(prices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_lines() {
        let prices = read_prices("# per hour\nh100_sxm: 2.5\n\nl4: 0.7 # spot\n");
        let expected = [("h100_sxm".to_owned(), 2.5), ("l4".to_owned(), 0.7)];
        assert_eq!(prices, Ok(BTreeMap::from(expected)));
        for wrong in [
            "h100_sxm",
            "h100_sxm: much",
            "h100_sxm: -1",
            "h100_sxm: inf",
            "h100_sxm: 1\nh100_sxm: 2",
        ] {
            assert!(read_prices(wrong).is_err(), "{wrong}");
        }
    }
}
