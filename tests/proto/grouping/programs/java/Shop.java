package com.shop;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;

/** Bugs of a shop. Prints the stack trace of the one that is named. */
public class Shop {
  static class Declined extends RuntimeException {
    Declined(String message) { super(message); }
  }

  static class JobFailed extends RuntimeException {
    JobFailed(Throwable cause) { super("job failed", cause); }
  }

  interface Repository {
    String find(String sku);
  }

  static class Cart {
    static int price(Map<String, Integer> prices, String sku) {
      return prices.get(sku);
    }

    static int total(List<String> skus, Map<String, Integer> prices) {
      return skus.stream().mapToInt(sku -> price(prices, sku)).sum();
    }

    static int quantity(String text) {
      return Integer.parseInt(text);
    }

    static int discount(String text) {
      return Integer.parseInt(text);
    }
  }

  static class Pay {
    static int charge(String card) {
      throw new Declined("card " + card + " was declined");
    }
  }

  static class Mail {
    static int send(String to) {
      throw new Declined("mail to " + to + " bounced");
    }
  }

  static int even(int n) { return odd(n + 1) + 1; }

  static int odd(int n) { return even(n + 1) + 1; }

  static void run(Callable<?> job) {
    try {
      job.call();
    } catch (Exception error) {
      throw new JobFailed(error);
    }
  }

  static Repository proxy() {
    return (Repository) Proxy.newProxyInstance(Shop.class.getClassLoader(), new Class<?>[] {Repository.class},
        (self, method, arguments) -> { throw new Declined("no " + arguments[0]); });
  }

  static Object bug(String name, String value) throws Exception {
    try (var pool = new AutoPool()) {
      switch (name) {
        case "price": return Cart.total(List.of(value), Map.of());
        case "quantity": return Cart.quantity(value);
        case "discount": return Cart.discount(value);
        case "future_pay": return CompletableFuture.supplyAsync(() -> Pay.charge(value), pool.service).join();
        case "future_mail": return CompletableFuture.supplyAsync(() -> Mail.send(value), pool.service).join();
        case "task_pay": return pool.service.submit(() -> Pay.charge(value)).get();
        case "task_mail": return pool.service.submit(() -> Mail.send(value)).get();
        case "job_pay": run(() -> Pay.charge(value)); return null;
        case "job_mail": run(() -> Mail.send(value)); return null;
        case "reflected": return Pay.class.getDeclaredMethod("charge", String.class).invoke(null, value);
        case "proxied": return proxy().find(value);
        case "overflow": return even(0);
        case "overflow_odd": return odd(0);
        default: throw new IllegalArgumentException(name);
      }
    }
  }

  static class AutoPool implements AutoCloseable {
    final java.util.concurrent.ExecutorService service = Executors.newFixedThreadPool(1);

    public void close() { service.shutdown(); }
  }

  public static void main(String[] arguments) {
    try {
      bug(arguments[0], arguments[1]);
    } catch (Throwable error) {
      var text = new StringWriter();
      error.printStackTrace(new PrintWriter(text));
      System.out.print("---- " + error.getClass().getName() + " | " + error.getMessage() + "\n" + text);
    }
  }
}
