using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;

namespace Shop {
  public class Declined : Exception {
    public Declined(string message) : base(message) {}
  }

  public class JobFailed : Exception {
    public JobFailed(Exception inner) : base("job failed", inner) {}
  }

  public class Cart {
    public int Price(IDictionary<string, int> prices, string sku) { return prices[sku]; }

    public int Total(IDictionary<string, int> prices, IEnumerable<string> skus) {
      return skus.Sum(sku => Price(prices, sku));
    }

    public static int Quantity(string text) { return int.Parse(text); }

    public static int Discount(string text) { return int.Parse(text); }

    public async Task<int> Charge(string card) {
      await Task.Delay(1);
      throw new Declined("card " + card + " was declined");
    }

    public async Task<int> Send(string to) {
      await Task.Delay(1);
      throw new Declined("mail to " + to + " bounced");
    }

    public T First<T>(IEnumerable<T> items) { return items.First(); }
  }

  public static class Jobs {
    public static async Task Run(Func<Task<int>> job) {
      try {
        await job();
      } catch (Declined error) {
        throw new JobFailed(error);
      }
    }
  }

  public static class Program {
    static object Bug(string name, string value) {
      var cart = new Cart();
      switch (name) {
        case "price": return cart.Total(new Dictionary<string, int>(), new[] { value });
        case "quantity": return Cart.Quantity(value);
        case "discount": return Cart.Discount(value);
        case "charge": return cart.Charge(value).GetAwaiter().GetResult();
        case "aggregate_charge": return cart.Charge(value).Result;
        case "aggregate_send": return cart.Send(value).Result;
        case "job_charge": Jobs.Run(() => cart.Charge(value)).GetAwaiter().GetResult(); return null;
        case "job_send": Jobs.Run(() => cart.Send(value)).GetAwaiter().GetResult(); return null;
        case "generic": return cart.First(new List<int>());
        default: throw new ArgumentException(name);
      }
    }

    public static void Main(string[] arguments) {
      try {
        Bug(arguments[0], arguments[1]);
      } catch (Exception error) {
        Console.Write("---- " + error.GetType().FullName + " | " + error.Message.Replace("\r\n", "\\n").Replace("\n", "\\n") + "\n" + error + "\n");
      }
    }
  }
}
