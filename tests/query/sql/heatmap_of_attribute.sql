SELECT time, toInt16(near + (value >= {p16:Array(Float64)}[near + 2]) - (value < {p16:Array(Float64)}[near + 1])) AS height,
  count(), countIf(failed),
  max(overlooked)
FROM (
SELECT toUInt8(intDiv(toUnixTimestamp64Nano(start_time) - {p3:Int64}, {p17:Int64})) AS time,
  if(toFloat64OrZero(attributes[{p11:String}]) >= 9007199254740992. AND toFloat64OrZero(attributes[{p11:String}]) < 18446744073709551616. AND ifNull(toInt128OrNull(attributes[{p11:String}]) < toInt128(least(toFloat64OrZero(attributes[{p11:String}]), 18446744073709551616.)), 0), reinterpretAsFloat64(reinterpretAsUInt64(toFloat64OrZero(attributes[{p11:String}])) - 1), toFloat64OrZero(attributes[{p11:String}])) AS value,
  toInt32(greatest(0, least(103, floor(1 * (log2(greatest(toFloat64(value), 9.094947017729282e-13)) - -40.0))))) AS near,
  status_code = 2 AS failed,
  (position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0 OR position(attribute_types, {p14:String}) > 0 OR position(resource, {p12:String}) > 0) AS overlooked
FROM spans
WHERE project_id = {p0:UInt64}
  AND toStartOfFiveMinutes(start_time) >= toDateTime({p1:UInt32}, 'UTC')
  AND toStartOfFiveMinutes(start_time) <= toDateTime({p2:UInt32}, 'UTC')
  AND start_time >= fromUnixTimestamp64Nano({p3:Int64}, 'UTC')
  AND start_time < fromUnixTimestamp64Nano({p4:Int64}, 'UTC')
  AND ((position(attribute_types, {p6:String}) > 0 AND ((position(attribute_types, concat({p6:String}, 'i')) > 0 OR (position(attribute_types, concat({p6:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p5:String}])))) AND toFloat64OrZero(attributes[{p5:String}]) >= {p10:Float64})) OR position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0)
  AND ((position(attribute_types, concat({p12:String}, 'i')) > 0 OR (position(attribute_types, concat({p12:String}, 'd')) > 0 AND isFinite(toFloat64OrZero(attributes[{p11:String}])))) OR (position(attribute_types, {p8:String}) > 0 OR position(resource, {p6:String}) > 0 OR position(attribute_types, {p14:String}) > 0 OR position(resource, {p12:String}) > 0)))
GROUP BY time, height
-- p0 = 7
-- p1 = 1795184400
-- p2 = 1795188000
-- p3 = 1795184400123456789
-- p4 = 1795188000123456789
-- p5 = 'http.status_code'
-- p6 = '\x01http.status_code\x02'
-- p8 = '\x01resource.http.status_code\x02'
-- p10 = 500.0
-- p11 = 'size'
-- p12 = '\x01size\x02'
-- p14 = '\x01resource.size\x02'
-- p16 = [9.09495e-13, 1.81899e-12, 3.63798e-12, 7.27596e-12, 1.4552e-11, 2.91039e-11, 5.82077e-11, 1.16416e-10, 2.32831e-10, 4.65662e-10, 9.31323e-10, 1.86265e-09, 3.7253e-09, 7.45059e-09, 1.49012e-08, 2.98024e-08, 5.96047e-08, 1.1921e-07, 2.38419e-07, 4.76838e-07, 9.53675e-07, 1.90735e-06, 3.8147e-06, 7.6294e-06, 1.52588e-05, 3.05176e-05, 6.10352e-05, 0.000122071, 0.000244141, 0.000488282, 0.000976563, 0.00195313, 0.00390625, 0.0078125, 0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048580.0, 2097160.0, 4194310.0, 8388610.0, 16777300.0, 33554500.0, 67108900.0, 134218000.0, 268436000.0, 536871000.0, 1073750000.0, 2147490000.0, 4294970000.0, 8589940000.0, 17179900000.0, 34359800000.0, 68719500000.0, 137439000000.0, 274878000000.0, 549756000000.0, 1099520000000.0, 2199030000000.0, 4398050000000.0, 8796100000000.0, 17592200000000.0, 35184400000000.0, 70368800000000.0, 140738000000000.0, 281475000000000.0, 562950000000000.0, 1125900000000000.0, 2251800000000000.0, 4503600000000000.0, 9007200000000000.0, 1.80144e+16, 3.60288e+16, 7.20576e+16, 1.44116e+17, 2.88231e+17, 5.76461e+17, 1.15293e+18, 2.30585e+18, 4.61169e+18, 9.22338e+18, 1.84468e+19]
-- p17 = 60000000000
