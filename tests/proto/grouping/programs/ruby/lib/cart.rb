# Bugs of a shop.
require "json"

class Declined < StandardError; end
class JobFailed < StandardError; end

module Shop
  class Cart
    def price(items, sku)
      items.fetch(sku)
    end

    def total(items, skus)
      skus.sum { |sku| price(items, sku) }
    end

    def invoice(text)
      JSON.parse(text)
    end

    def tax(text)
      JSON.parse(text)
    end

    def charge(card)
      raise Declined, "card #{card} was declined"
    end

    def send_mail(to)
      raise Declined, "mail to #{to} bounced"
    end

    def self.count(text)
      Integer(text)
    end

    def even(n)
      odd(n + 1)
    end

    def odd(n)
      even(n + 1)
    end
  end

  def self.run_job(value)
    yield value
  rescue Declined
    raise JobFailed, "job failed"
  end
end
