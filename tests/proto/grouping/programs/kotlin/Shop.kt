package com.shop

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext

class Declined(message: String) : RuntimeException(message)

class JobFailed(cause: Throwable) : RuntimeException("job failed", cause)

class Cart {
    fun price(prices: Map<String, Int>, sku: String): Int = prices.getValue(sku)

    fun total(prices: Map<String, Int>, skus: List<String>): Int = skus.sumOf { price(prices, it) }

    suspend fun charge(card: String): Int {
        delay(1)
        throw Declined("card $card was declined")
    }

    suspend fun send(to: String): Int {
        delay(1)
        throw Declined("mail to $to bounced")
    }
}

object Jobs {
    inline fun <T> wrapped(job: () -> T): T =
        try {
            job()
        } catch (error: RuntimeException) {
            throw JobFailed(error)
        }

    fun even(n: Int): Int = odd(n + 1) + 1

    fun odd(n: Int): Int = even(n + 1) + 1

    fun named(prices: List<(String) -> Int>, value: String): Int = prices.map { it(value) }.first()
}

fun bug(name: String, value: String): Any {
    val cart = Cart()
    return when (name) {
        "price" -> cart.total(mapOf(), listOf(value))
        "quantity" -> value.toInt()
        "charge" -> runBlocking { cart.charge(value) }
        "send" -> runBlocking { cart.send(value) }
        "async_charge" -> runBlocking { coroutineScope { async(Dispatchers.Default) { cart.charge(value) }.await() } }
        "async_send" -> runBlocking { coroutineScope { async(Dispatchers.Default) { cart.send(value) }.await() } }
        "context_charge" -> runBlocking { withContext(Dispatchers.IO) { cart.charge(value) } }
        "job_price" -> Jobs.wrapped { cart.total(mapOf(), listOf(value)) }
        "job_charge" -> Jobs.wrapped { runBlocking { cart.charge(value) } }
        "overflow" -> Jobs.even(0)
        "lambda" -> Jobs.named(listOf({ text -> text.toInt() }), value)
        else -> error(name)
    }
}

fun main(arguments: Array<String>) {
    try {
        bug(arguments[0], arguments[1])
    } catch (error: Throwable) {
        print("---- ${error.javaClass.name} | ${error.message}\n${error.stackTraceToString()}")
    }
}
