require_relative "lib/cart"

def bug(name, value)
  cart = Shop::Cart.new
  case name
  when "price" then cart.total({}, [value])
  when "invoice" then cart.invoice(value)
  when "tax" then cart.tax(value)
  when "job_charge" then Shop.run_job(value) { |it| cart.charge(it) }
  when "job_mail" then Shop.run_job(value) { |it| cart.send_mail(it) }
  when "count" then Shop::Cart.count(value)
  when "overflow" then cart.even(0)
  when "thread" then Thread.new { Thread.current.report_on_exception = false; cart.charge(value) }.value
  when "nil" then cart.total(nil, [value])
  end
end

begin
  bug(ARGV[0], ARGV[1])
rescue Exception => error
  print "---- #{error.class} | #{error.message.gsub("\n", '\n')}\n", error.full_message(highlight: false, order: :top)
end
