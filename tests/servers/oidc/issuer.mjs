// A real OIDC issuer on loopback for tests. Usage: node issuer.mjs PORT
// Its keys are new at each start. Each request for them is one line of output, so that a test can count them.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const audience = 'urn:sluice:api';
const scope = 'upload download metadata delete admin';

function key(type, alg, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() };
}

function client(id) {
  return {
    client_id: id,
    client_secret: `${id}-secret-0123456789`,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_basic',
  };
}

const provider = new Provider(issuer, {
  clients: [client('first'), client('second')],
  jwks: { keys: [key('rsa', 'RS256', { modulusLength: 2048 }), key('ec', 'ES256', { namedCurve: 'P-256' })] },
  scopes: scope.split(' '),
  extraTokenClaims: (_context, token) => ({ tenant_id: `ten_of_${token.clientId}` }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope,
        audience,
        accessTokenFormat: 'jwt',
        accessTokenTTL: 300,
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

provider.use(async (context, next) => {
  if (context.path === '/jwks') console.log('keys requested');
  await next();
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
