import { describe, expect, it, test } from 'vitest';
import { SecretRedactor, secretsOfEndpoint, signaturesIn } from './secret-redactor.ts';

const TOKEN = 'tok/en+"0123456789"&ü';
const ENDPOINT = {
  url: 'https://chat.example/services/T0/AbCdEfGhIjKlMnOpQrSt?token=q%2FS3cret99&v=1',
  headers: {
    Authorization: `Basic ${Buffer.from('millrace:pass-word').toString('base64')}`,
    'X-Api-Key': TOKEN,
    'X-Team': 'growth-and-more',
  },
};
const SECRETS = { sharedSecret: 'the-shared-secret', signingSecrets: ['whsec_c2lnbmluZy1zZWNyZXQtb2Ytb25l'] };
const { redact } = new SecretRedactor(secretsOfEndpoint(ENDPOINT, SECRETS));

describe('an answer of an endpoint', () => {
  it.each([
    ['the value of a header', `you sent ${TOKEN}!`, 'you sent …!'],
    ['one in a text of JSON', JSON.stringify({ got: TOKEN }), '{"got":"…"}'],
    ['one in a text of JSON, as PHP writes it', JSON.stringify(TOKEN).replace('/', '\\/'), '"…"'],
    ['one in a URL', `see /?k=${encodeURIComponent(TOKEN)}`, 'see /?k=…'],
    ['one in a page', `<p>${TOKEN.replace('&', '&amp;').replaceAll('"', '&quot;')}</p>`, '<p>…</p>'],
    ['a password, and the login', 'no user millrace with pass-word', 'no user millrace with …'],
    ['a header with its scheme', ENDPOINT.headers.Authorization, '…'],
    ['its login in base64', ENDPOINT.headers.Authorization.slice(6), '…'],
    ['a token in a path', 'POST /services/T0/AbCdEfGhIjKlMnOpQrSt', 'POST /services/T0/…'],
    ['a value of a query, as it is and decoded', 'q%2FS3cret99 is q/S3cret99', '… is …'],
    ['secrets of signatures', 'the-shared-secret, c2lnbmluZy1zZWNyZXQtb2Ytb25l', '…, …'],
    ['what is shown anyway', 'v=1 of growth-and-more', 'v=1 of growth-and-more'],
  ])('is kept without %s', (_, text, kept) => {
    expect(redact(text)).toBe(kept);
  });

  it('is kept without what is in its base64, wherever it begins there', () => {
    for (const before of ['', 'a', 'ab', 'Authorization: ']) {
      for (const alphabet of ['base64', 'base64url'] as const) {
        const text = Buffer.from(`${before}${TOKEN} and more`).toString(alphabet);
        const left = redact(`dump ${text}`).split('…');
        expect(left).toHaveLength(2);
        const seen = left.map((part) => Buffer.from(part.replace('dump ', ''), alphabet).toString('latin1'));
        for (let from = 0; from + 4 <= TOKEN.length; from++)
          expect(seen.join('\n')).not.toContain(TOKEN.slice(from, from + 4));
      }
    }
  });

  it('that is cut in the middle of a secret ends before it', () => {
    const long = 'x'.repeat(4090);
    expect(redact(`${long}${TOKEN.slice(0, 9)}`)).toBe(`${long}…`);
    // A whole answer may end with the first letters of a secret.
    expect(redact(TOKEN.slice(0, 9))).toBe(TOKEN.slice(0, 9));
  });
});

test('the signatures of a request are the values of its headers, each for itself', () => {
  const headers = {
    'Webhook-Id': 'm1',
    'X-Signature': 'a1b2c3d4e5',
    'Webhook-Signature': 'v1,AAAA+BBBB v1,CCCC/DDDD',
  };
  expect(signaturesIn(headers)).toEqual(['a1b2c3d4e5', 'AAAA+BBBB', 'CCCC/DDDD']);
});
