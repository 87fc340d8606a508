import { expect, test } from 'vitest';
import { isLoopback } from './loopback.ts';

test('loopback is what no other machine reaches', () => {
  for (const host of ['127.0.0.1', '127.8.9.10', '::1', '::ffff:127.0.0.1', 'localhost', 'LOCALHOST.'])
    expect([host, isLoopback(host)]).toEqual([host, true]);
  for (const host of ['', '0.0.0.0', '::', '10.0.0.1', '128.0.0.1', '127.0.0.1.example', 'localhost.example'])
    expect([host, isLoopback(host)]).toEqual([host, false]);
});
