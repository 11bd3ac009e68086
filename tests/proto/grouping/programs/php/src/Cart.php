<?php
namespace App;

class Declined extends \RuntimeException {}
class JobFailed extends \RuntimeException {}

final class Cart
{
    public function price(array $items, string $sku): int
    {
        return $items[$sku] ?? throw new \OutOfBoundsException("no price of $sku");
    }

    public function total(array $items, array $skus): int
    {
        return array_sum(array_map(fn(string $sku) => $this->price($items, $sku), $skus));
    }

    public function charge(string $card): int
    {
        throw new Declined("card $card was declined");
    }

    public function send(string $to): int
    {
        throw new Declined("mail to $to bounced");
    }

    public static function invoice(string $text): mixed
    {
        return json_decode($text, false, 5, JSON_THROW_ON_ERROR);
    }

    public static function tax(string $text): mixed
    {
        return json_decode($text, false, 5, JSON_THROW_ON_ERROR);
    }

    public function deeper(int $n): int
    {
        if ($n > 0) {
            return $this->deeper($n - 1);
        }
        throw new \LogicException('too deep');
    }
}

function run_job(callable $job, string $value): void
{
    try {
        $job($value);
    } catch (Declined $error) {
        throw new JobFailed('job failed', 0, $error);
    }
}
