/** Sends one call as a client library would; resolves to the status and the parsed answer. */
export async function send(
  url: string,
  path: string,
  body: unknown,
  { writeKey = 'wk', headers = {} }: { writeKey?: string | undefined; headers?: Record<string, string> } = {},
): Promise<{ status: number; answer: unknown; headers: Headers }> {
  const authorization = `Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`;
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization, ...headers },
    body:
      body instanceof Uint8Array ? Buffer.from(body) : typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, answer: await response.json(), headers: response.headers };
}

export const track = (messageId: string, more: object = {}) => ({
  type: 'track',
  event: 'Order Placed',
  userId: 'u1',
  messageId,
  properties: { total: 9 },
  ...more,
});
