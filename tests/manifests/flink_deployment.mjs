// Holds each FlinkDeployment to the operator's own resource definition, as the npm package `@kubernetes-models/flink` has it
// compiled. Reads a list of [where, document] as JSON on standard input and prints one line a fault, its own check first.
//
//   node flink_deployment.mjs MODULES    the folder with the package

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const compiled = join(process.argv[2], '@kubernetes-models/flink/_schemas/FlinkApacheOrgV1beta1FlinkDeployment.js');
const { validate } = await import(pathToFileURL(compiled));

function* faults(at, document) {
  if (validate(document)) return;
  for (const { instancePath, message, keyword, params } of validate.errors) {
    yield `${at}${instancePath.replaceAll('/', '.')}: ${message ?? keyword} ${JSON.stringify(params)}`;
  }
}

const documents = JSON.parse(readFileSync(0));
// A check that sees no fault where one is says nothing by its silence.
const wrong = { apiVersion: 'flink.apache.org/v1beta1', kind: 'FlinkDeployment', spec: { flinkVersion: 'v9_9', image: 5 } };
if ([...faults('', wrong)].length < 2) console.log('the check by the operator’s definition sees no fault in a faulty FlinkDeployment');
for (const [at, document] of documents) for (const fault of faults(at, document)) console.log(fault);
