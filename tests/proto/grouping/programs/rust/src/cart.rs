//! Bugs of a shop.
use std::collections::HashMap;

#[inline(never)]
pub fn price(prices: &HashMap<String, u32>, sku: &str) -> u32 {
    *prices.get(sku).unwrap()
}

pub fn total(prices: &HashMap<String, u32>, skus: &[&str]) -> u32 {
    skus.iter().map(|sku| price(prices, sku)).sum()
}

#[inline(never)]
pub fn at(items: &[u32], index: usize) -> u32 {
    items[index]
}

#[inline(never)]
pub fn quantity(text: &str) -> u32 {
    text.parse().unwrap()
}

#[inline(never)]
pub fn discount(text: &str) -> u32 {
    text.parse().unwrap()
}

#[inline(never)]
pub fn deeper(n: usize) -> usize {
    if n == 0 {
        panic!("too deep");
    }
    deeper(n - 1) + 1
}

#[inline(never)]
pub fn charge(card: &str) -> anyhow::Result<()> {
    anyhow::bail!("card {card} was declined")
}

#[inline(never)]
pub fn send(to: &str) -> anyhow::Result<()> {
    anyhow::bail!("mail to {to} bounced")
}
