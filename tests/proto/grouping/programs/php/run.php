<?php
require __DIR__ . '/src/Cart.php';

use App\Cart;

$bugs = [
    'price' => fn($v) => (new Cart())->total([], [$v]),
    'charge' => fn($v) => (new Cart())->charge($v),
    'job_charge' => fn($v) => App\run_job([new Cart(), 'charge'], $v),
    'job_send' => fn($v) => App\run_job([new Cart(), 'send'], $v),
    'invoice' => fn($v) => Cart::invoice($v),
    'tax' => fn($v) => Cart::tax($v),
    'deeper' => fn($v) => (new Cart())->deeper((int) $v),
    'type' => fn($v) => (new Cart())->total($v, []),
];
try {
    $bugs[$argv[1]]($argv[2]);
} catch (Throwable $error) {
    $form = $argv[3] ?? 'full';
    echo '---- ' . get_class($error) . ' | ' . $error->getMessage() . "\n";
    echo $form === 'trace' ? $error->getTraceAsString() . "\n" : "$error\n";
}
