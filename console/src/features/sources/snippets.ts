/** The address and the source of a snippet. */
export interface SnippetTarget {
  /** The origin that takes calls, such as `https://collect.example.com`. */
  readonly origin: string;
  readonly writeKey: string;
}

/** A snippet of code that sends a first event. */
export interface SourceSnippet {
  readonly language: string;
  readonly code: string;
}

/** The event that all snippets send. */
const FIRST_EVENT = 'Hello Millrace';

/** The first event in each language, with the address and the write key filled in. */
export function sourceSnippets(target: SnippetTarget): SourceSnippet[] {
  return [
    { language: 'curl', code: curl(target) },
    { language: 'Node', code: node(target) },
    { language: 'Browser', code: browser(target) },
    { language: 'Python', code: python(target) },
    { language: 'Go', code: go(target) },
  ];
}

function curl({ origin, writeKey }: SnippetTarget): string {
  return `curl -u ${shellText(`${writeKey}:`)} ${shellText(`${origin}/v1/track`)} \\
  -d '{"userId":"u1","event":"${FIRST_EVENT}"}'`;
}

function node({ origin, writeKey }: SnippetTarget): string {
  return `// npm install @segment/analytics-node
import { Analytics } from '@segment/analytics-node';

const analytics = new Analytics({
  writeKey: ${singleQuoted(writeKey)},
  host: ${singleQuoted(origin)},
});
analytics.track({ userId: 'u1', event: '${FIRST_EVENT}' });
await analytics.closeAndFlush();`;
}

function browser({ origin, writeKey }: SnippetTarget): string {
  const { host, protocol } = new URL(origin);
  const insecure = protocol === 'http:' ? `, protocol: 'http'` : '';
  return `// npm install @segment/analytics-next
import { AnalyticsBrowser } from '@segment/analytics-next';

const analytics = AnalyticsBrowser.load(
  { writeKey: ${singleQuoted(writeKey)}, cdnURL: ${singleQuoted(origin)} },
  { integrations: { 'Segment.io': { apiHost: ${singleQuoted(`${host}/v1`)}${insecure} } } },
);
analytics.track('${FIRST_EVENT}');`;
}

function python({ origin, writeKey }: SnippetTarget): string {
  return `# pip install segment-analytics-python
import segment.analytics as analytics

analytics.write_key = ${singleQuoted(writeKey)}
analytics.host = ${singleQuoted(origin)}
analytics.track('u1', '${FIRST_EVENT}')
analytics.flush()`;
}

function go({ origin, writeKey }: SnippetTarget): string {
  return `// go get github.com/segmentio/analytics-go/v3
client, err := analytics.NewWithConfig(${JSON.stringify(writeKey)}, analytics.Config{
	Endpoint: ${JSON.stringify(origin)},
})
if err != nil {
	log.Fatal(err)
}
defer client.Close()
client.Enqueue(analytics.Track{UserId: "u1", Event: "${FIRST_EVENT}"})`;
}

/** A text in single quotes, as JavaScript and Python read it. */
function singleQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** An argument of a shell, quoted only where it has to be. */
function shellText(text: string): string {
  return /^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
