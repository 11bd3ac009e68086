package com.shop

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.*
import java.io.{PrintWriter, StringWriter}

class Declined(message: String) extends RuntimeException(message)
class JobFailed(cause: Throwable) extends RuntimeException("job failed", cause)

object Cart:
  def price(prices: Map[String, Int], sku: String): Int = prices(sku)

  def total(prices: Map[String, Int], skus: List[String]): Int =
    skus.map(sku => price(prices, sku)).sum

  def discounts(rates: Map[String, Int], skus: List[String]): Int =
    skus.map(sku => rates(sku)).sum

  def charge(card: String): Int = throw Declined(s"card $card was declined")

  def send(to: String): Int = throw Declined(s"mail to $to bounced")

object Jobs:
  def run[T](job: => T): T =
    try job
    catch case error: Exception => throw JobFailed(error)

  def even(n: Int): Int = odd(n + 1) + 1

  def odd(n: Int): Int = even(n + 1) + 1

trait Audited:
  def audit(value: String): Int = value.toInt

class Order extends Audited:
  def count(value: String): Int = audit(value)

object Shop:
  def bug(name: String, value: String): Any = name match
    case "price" => Cart.total(Map(), List(value))
    case "discounts" => Cart.discounts(Map(), List(value))
    case "charge" => Await.result(Future(Cart.charge(value)), 5.seconds)
    case "send" => Await.result(Future(Cart.send(value)), 5.seconds)
    case "mapped_charge" => Await.result(Future(value).map(it => Cart.charge(it)), 5.seconds)
    case "job_charge" => Jobs.run(Cart.charge(value))
    case "job_send" => Jobs.run(Cart.send(value))
    case "overflow" => Jobs.even(0)
    case "trait" => Order().count(value)

  def main(arguments: Array[String]): Unit =
    try bug(arguments(0), arguments(1))
    catch
      case error: Throwable =>
        val text = StringWriter()
        error.printStackTrace(PrintWriter(text))
        print(s"---- ${error.getClass.getName} | ${error.getMessage}\n$text")
