// Bugs of a shop.
class Declined extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = 'Declined';
  }
}

class Cart {
  price(items, sku) {
    return items[sku].price;
  }

  total(items, skus) {
    return skus.map((sku) => this.price(items, sku)).reduce((a, b) => a + b, 0);
  }

  async charge(card) {
    await null;
    throw new Declined(`card ${card} was declined`);
  }

  async mail(to) {
    await null;
    throw new Declined(`mail to ${to} bounced`);
  }
}

const even = (n) => odd(n + 1) + 1;
function odd(n) {
  return even(n + 1) + 1;
}

function invoice(text) {
  return JSON.parse(text);
}

function tax(text) {
  return JSON.parse(text);
}

module.exports = { Cart, Declined, even, odd, invoice, tax };
