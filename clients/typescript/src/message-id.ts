/** Random bytes are drawn in stocks: one draw costs more than the rest of the id. */
const STOCK = 4_096;
const NEEDED = 10;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/**
 * Makes message ids: UUIDs of version 7. Their first 48 bits are the time, and ids made together sort
 * together.
 *
 * `crypto.randomUUID` is missing on pages without https and in Node 18, where `crypto` is no global at all.
 * There `Math.random` fills the 74 random bits: it has 128 bits of state seeded by the system, and an id has
 * to be unique, not secret.
 */
export function messageIds(now: () => number): () => string {
  const stock = new Uint8Array(STOCK);
  let used = STOCK;
  return () => {
    if (used + NEEDED > STOCK) {
      fill(stock);
      used = 0;
    }
    const at = used;
    used += NEEDED;
    const byte = (n: number): string => HEX[stock[at + n]!]!;
    const time = Math.max(0, now()).toString(16).padStart(12, '0');
    return (
      `${time.slice(0, 8)}-${time.slice(8, 12)}-` +
      `${HEX[0x70 | (stock[at]! & 0x0f)]}${byte(1)}-${HEX[0x80 | (stock[at + 2]! & 0x3f)]}${byte(3)}-` +
      byte(4) +
      byte(5) +
      byte(6) +
      byte(7) +
      byte(8) +
      byte(9)
    );
  };
}

function fill(bytes: Uint8Array<ArrayBuffer>): void {
  if (typeof crypto === 'object') crypto.getRandomValues(bytes);
  else for (let at = 0; at < bytes.length; at++) bytes[at] = Math.random() * 256;
}
