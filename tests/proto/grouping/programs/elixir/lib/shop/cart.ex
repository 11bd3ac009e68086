defmodule Shop.Declined do
  defexception [:message]
end

defmodule Shop.JobFailed do
  defexception [:message]
end

defmodule Shop.Cart do
  def price(items, sku), do: Map.fetch!(items, sku) + 0

  def total(items, skus) do
    Enum.reduce(skus, 0, fn sku, sum -> price(items, sku) + sum end)
  end

  def discounts(rates, skus) do
    Enum.reduce(skus, 0, fn sku, sum -> Map.fetch!(rates, sku) + sum end)
  end

  def quantity(text), do: String.to_integer(text) + 0

  def charge(card) do
    if card != nil, do: raise(Shop.Declined, "card #{card} was declined")
    :ok
  end

  def first([head | _]) when is_integer(head), do: head

  def deeper(0, fun), do: fun.() + 1
  def deeper(n, fun), do: deeper(n - 1, fun) + 1
end

defmodule Shop.Stock do
  use GenServer
  def init(state), do: {:ok, state}

  def handle_call({:take, sku}, _from, state) do
    {:reply, Map.fetch!(state, sku) + 0, state}
  end

  def handle_call({:count, text}, _from, state) do
    {:reply, String.to_integer(text) + 0, state}
  end
end

defmodule Shop.Run do
  alias Shop.Cart

  def bug("price", v), do: Cart.total(%{}, [v])
  def bug("discounts", v), do: Cart.discounts(%{}, [v])
  def bug("quantity", v), do: Cart.quantity(v)
  def bug("charge", v), do: Cart.charge(v)
  def bug("first", v), do: Cart.first([v])
  def bug("deeper", v), do: Cart.deeper(String.to_integer(v), fn -> raise "too deep" end)

  def main(name, value) do
    try do
      bug(name, value)
    rescue
      error ->
        message = error |> Exception.message() |> String.replace("\n", "\\n")
        IO.write("---- #{inspect(error.__struct__)} | #{message}\n")

        if System.get_env("BANNER"),
          do: IO.write(Exception.format(:error, error, __STACKTRACE__) <> "\n"),
          else: IO.write(Exception.format_stacktrace(__STACKTRACE__) <> "\n")
    end
  end
end
