/** A JSON schema as far as it is looked at here. */
interface Schema {
  readonly description?: string;
  readonly default?: unknown;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
}

const HEAD = `# Configuration

Every key of the configuration file, made from its schema by \`npm run generate\`. The schema itself is
[\`spec/config.schema.json\`](../../spec/config.schema.json), which editors complete and check from.

\`\`\`yaml
port: 8080
retention: { events: 7d, deadLetters: 30d }
egress: { allow: [10.20.0.0/16] }
sources:
  - name: website
    writeKeys: [wk_web_1]
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings:
      endpoints:
        - { url: https://example.com/hook, headers: { X-Team: growth } }
      sharedSecret: \${CRM_SECRET}
\`\`\`

A text may hold \`\${NAME}\`, which reads the environment; one that is not set is an error that names the line, and \`$\${\` is a literal
\`\${\`. A key that is not listed here is refused. The first 20 things that are wrong are told at once, with line, path, what was found and
what is allowed. A file has at most 1,000 sources and 1,000 destinations; more go into a second one, for [\`apply\`](configuration-as-code.md). Durations are written \`250ms\`, \`5s\`, \`10m\`, \`4h\`, \`7d\`, sizes \`32KB\`, \`64MB\`, \`10GB\`.

Every start applies the file to the records it names and leaves the others, which the
[control API](control-api.md) may have made, as they are.
`;

const LATER = `
## Environment and flags

The environment comes before the file, and a flag before both.

| variable | flag of \`start\` | key |
|---|---|---|
| \`MILLRACE_HOST\` | \`--host\` | \`host\` |
| \`MILLRACE_PORT\` | \`--port\` | \`port\` |
| \`MILLRACE_DATA\` | \`--data\` | \`data\` |
| \`MILLRACE_LOG\` | \`--log\` | \`log\` |
| \`MILLRACE_ADMIN_TOKEN\` | | \`admin.token\` |
| \`MILLRACE_ADMIN_HOST\` | | \`admin.host\` |
| \`MILLRACE_ADMIN_PORT\` | | \`admin.port\` |
| \`MILLRACE_DATABASE\` | \`--database\` | \`database\` |
| \`MILLRACE_NODE\` | | \`node\` |
| \`MILLRACE_SECRETS_KEY\`, or \`MILLRACE_SECRETS_KEY_FILE\` with the path of a file | | \`secrets.key\` |
| \`MILLRACE_TRUSTED_PROXIES\` | | \`trustedProxies\`, with commas between ranges |
| \`MILLRACE_CONFIG\` | \`--config\` | which file it is |
`;

const RECORDS = ['sources', 'destinations', 'audiences', 'traits'];

/** `docs/reference/configuration.md`, from the JSON schema of the file. */
export function configurationReference(schema: Schema): string {
  const { server, records } = Object.groupBy(Object.entries(schema.properties ?? {}), ([key]) =>
    RECORDS.includes(key) ? 'records' : 'server',
  );
  const sections = [
    ['The server', table(rowsOf(Object.fromEntries(server ?? []), ''))],
    ...(records ?? []).flatMap(([key, { description = '', items = {} }]) =>
      variantsOf(items).map(({ properties = {}, required }) => [
        `\`${key}[]\`${properties === items.properties ? '' : ` of type \`${String(properties['type']?.const)}\``}`,
        `${description}\n\n${table(rowsOf(properties, '', required))}`,
      ]),
    ),
  ];
  return `${HEAD}${sections.map(([title, text]) => `\n## ${title}\n\n${text}`).join('')}${LATER}`;
}

/** The shapes that an entry may have: where there are several, each is told by its type. */
function variantsOf(items: Schema): readonly Schema[] {
  return items.oneOf ?? items.anyOf ?? [items];
}

function table(rows: readonly string[]): string {
  return `${['| key | value | default | |', '|---|---|---|---|', ...rows].join('\n')}\n`;
}

function rowsOf(
  properties: Readonly<Record<string, Schema>>,
  at: string,
  required: readonly string[] = [],
): string[] {
  return Object.entries(properties).flatMap(([key, schema]) => {
    const path = `${at}${key}`;
    const inner = schema.properties ?? schema.items?.properties;
    const below = schema.properties === undefined ? `${path}[].` : `${path}.`;
    const standard = schema.default === undefined || isEmpty(schema.default) ? '' : code(schema.default);
    const row = `| \`${path}\` | ${allowed(schema)} | ${
      required.includes(key) ? 'required' : standard
    } | ${escaped(schema.description ?? '')} |`;
    return [row, ...(inner === undefined ? [] : rowsOf(inner, below, (schema.items ?? schema).required))];
  });
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function allowed(schema: Schema): string {
  const { type = 'text', enum: values, minimum, maximum, items } = schema;
  if (schema.const !== undefined) return code(schema.const);
  if (values !== undefined) return values.map(code).join(', ');
  if (type === 'array') return items?.properties === undefined ? `list of ${allowed(items ?? {})}` : 'list';
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  if (schema.pattern?.includes('ms|s|m|h|d') === true) return 'duration';
  if (schema.pattern?.includes('KB|MB') === true) return 'size';
  const words: Readonly<Record<string, string>> = {
    string: 'text',
    boolean: '`true`, `false`',
    object: 'mapping',
  };
  return [type]
    .flat()
    .map((one) => words[one] ?? one)
    .join(' or ');
}

function code(value: unknown): string {
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function escaped(text: string): string {
  return text.replaceAll('|', '\\|');
}
