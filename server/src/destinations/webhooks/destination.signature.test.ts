import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Hmac } from '../http/signatures.ts';

const bytes = (max: number) => fc.uint8Array({ maxLength: max }).map((array) => Buffer.from(array));

it('is what the system computes, whatever the secret and the message, one after the other', () => {
  const message = fc.record({ before: fc.string({ unit: 'binary' }), bytes: bytes(300) });
  fc.assert(
    fc.property(
      fc.constantFrom('sha1' as const, 'sha256' as const),
      bytes(150),
      fc.array(message, { minLength: 1, maxLength: 5 }),
      (algorithm, secret, messages) => {
        const hmac = new Hmac(algorithm, secret);
        for (const { before, bytes } of messages) {
          const known = () => createHmac(algorithm, secret).update(before).update(bytes);
          expect(hmac.of(bytes, 'hex', before)).toBe(known().digest('hex'));
          expect(hmac.of(bytes, 'base64', before)).toBe(known().digest('base64'));
        }
      },
    ),
    { numRuns: 500 },
  );
});

it.each([0, 1, 63, 64, 65, 128])('takes a secret of %d bytes', (length) => {
  const secret = Buffer.alloc(length, 0xa5);
  expect(new Hmac('sha1', secret).of(Buffer.from('m'), 'hex')).toBe(
    createHmac('sha1', secret).update('m').digest('hex'),
  );
});

it('takes messages longer than any before, and short ones after them', () => {
  const hmac = new Hmac('sha256', Buffer.from('secret'));
  for (const length of [10, 40_000, 3, 1_000_000, 0]) {
    const message = Buffer.alloc(length, 'm');
    expect(hmac.of(message, 'hex', 'ü')).toBe(
      createHmac('sha256', 'secret').update('ü').update(message).digest('hex'),
    );
  }
});
