const util = require('node:util');
const { Cart, even, odd, invoice, tax } = require('./cart.js');

class JobFailed extends Error {
  constructor(cause) {
    super('job failed', { cause });
    this.name = 'JobFailed';
  }
}

async function runJob(job) {
  try {
    await job();
  } catch (error) {
    throw new JobFailed(error);
  }
}

function served(order, path) {
  const express = require('express');
  const middleware = require('./middleware.js');
  const app = express();
  for (const name of order.split(',')) app.use(middleware[name]);
  app.get('/cart', (req, res) => new Cart().total({}, [req.query.sku]));
  app.get('/mail', function mail(req) {
    return req.missing.to;
  });
  return new Promise((resolve, reject) => {
    app.use((error, req, res, next) => reject(error));
    app({ method: 'GET', url: path, headers: {} }, { setHeader() {} });
  });
}

const bugs = {
  price: (v) => new Cart().total({}, [v]),
  charge: (v) => new Cart().charge(v),
  job_charge: (v) => runJob(() => new Cart().charge(v)),
  job_mail: (v) => runJob(() => new Cart().mail(v)),
  any: (v) => Promise.any([new Cart().charge(v)]),
  any_mail: (v) => Promise.any([new Cart().mail(v)]),
  overflow: () => even(0),
  overflow_odd: () => odd(0),
  invoice,
  tax,
  express: (v) => served(v, '/cart?sku=1'),
  express_mail: (v) => served(v, '/mail'),
};

async function main([name, value, form]) {
  try {
    await bugs[name](value);
  } catch (error) {
    const text = form === 'inspect' ? util.inspect(error) : error.stack;
    console.log(`---- ${error.name} | ${error.message.replaceAll('\n', '\\n')}\n${text}`);
  }
}

main(process.argv.slice(2));
